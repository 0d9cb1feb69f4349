"""The batch size that fits into memory, and for worker processes into /dev/shm.

When /dev/shm is full, writing to it raises no error but kills the process with a bus error (mmap(2), SIGBUS); Docker
gives a container 64 MB. So the batch size is chosen before anything is measured, the same for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

MIB = 1024 * 1024
# The consumer, which is an interpreter with torch, and what each worker process adds.
CONSUMER_BYTES = 500 * MIB
WORKER_BYTES = 150 * MIB
# The rest is left to other processes.
USABLE = 0.85


class DoesNotFit(Exception):
    """Raised if not even batches of one sample fit; the message says which limit to raise."""


@dataclass(frozen=True)
class Demand:
    """Bytes that a candidate needs at its peak, or that the machine has."""

    memory: int
    shm: int

    def __add__(self, other: Demand) -> Demand:
        return Demand(self.memory + other.memory, self.shm + other.shm)

    def fits(self, room: Demand) -> bool:
        return self.memory <= room.memory and self.shm <= room.shm


def batches_under_way(prefetch_factor: int, workers: int) -> int:
    """Return how many batches exist at once: prefetched, held by the consumer, and the one that comes next.

    The consumer lets go of a batch only when it has the next one. ftloader.iterators.prefetch says the same.
    """
    return prefetch_factor * workers + 2


def demand(
    batch_bytes: int, workers: int, prefetch_factor: int, queued_per_worker: int = 0, dataset_bytes: int = 0
) -> Demand:
    """Return the bytes that `workers` workers need at most for batches of `batch_bytes`.

    Each worker also has the samples of a batch that it has not collated yet, and some peers queue more batches. Of a
    large dataset each worker process has a copy, and the consumer two while it pickles the dataset.
    """
    shared = batch_bytes * batches_under_way(prefetch_factor, workers)
    own = batch_bytes * workers * (1 + queued_per_worker)
    copies = dataset_bytes * (2 + workers)
    return Demand(shared + own + copies + CONSUMER_BYTES + WORKER_BYTES * workers, shared)


def room(memory: Mapping[str, Mapping]) -> Demand:
    """Return the bytes that all trials together may use on the twin that has least; `memory` as for `fit`."""
    return Demand(*(int(min(has[name] for has in memory.values()) * USABLE) for name in ("available", "shm_free")))


def together[T](candidates: Iterable[T], demand: Callable[[T], Demand], has: Demand | None) -> list[list[T]]:
    """Return the candidates in order, in groups that fit into memory at the same time; one group if *has* is None."""
    groups: list[list[T]] = []
    taken = Demand(0, 0)
    for candidate in candidates:
        more = demand(candidate)
        if groups and (has is None or (taken + more).fits(has)):
            groups[-1].append(candidate)
            taken += more
        else:
            groups.append([candidate])
            taken = more
    return groups


def fit(
    requested: int,
    sample_bytes: int,
    workers: int,
    prefetch_factor: int,
    needs_shm: bool,
    memory: Mapping[str, Mapping],
    queued_per_worker: int = 0,
    dataset_bytes: int = 0,
) -> tuple[int, list[str]]:
    """Return (batch size, warnings): `requested`, halved until it fits every twin.

    `memory` is ftrun.environment.memory() by twin. Raises DoesNotFit.
    """
    warnings: list[str] = []
    size = requested
    while True:
        need = demand(size * sample_bytes, workers, prefetch_factor, queued_per_worker, dataset_bytes)
        short = []
        for twin, has in memory.items():
            if needs_shm and need.shm > has["shm_free"] * USABLE:
                short.append(
                    f"/dev/shm of {twin} has {has['shm_free'] / MIB:.0f} MiB free, {workers} worker processes "
                    f"need {need.shm / USABLE / MIB:.0f} MiB (raise it: docker run --shm-size, SHM_SIZE=... "
                    "with compose)"
                )
            if need.memory > has["available"] * USABLE:
                short.append(
                    f"{twin} has {has['available'] / MIB:.0f} MiB of memory free, {workers} workers need "
                    f"{need.memory / USABLE / MIB:.0f} MiB (raise the container's limit, or use --workers)"
                )
        if not short:
            break
        # The first reason says what the requested size would need.
        warnings = warnings or short
        if size == 1:
            raise DoesNotFit("not even batches of one sample fit: " + "; ".join(short))
        size //= 2
    if size != requested:
        warnings = [f"batch size {size} instead of {requested}, for all candidates: {reason}" for reason in warnings]
    return size, warnings
