"""Batches that fit: into memory, and for worker processes into /dev/shm.

torch's worker processes hand batches over in shared memory. When /dev/shm is full, writing
to it raises no error but kills the process with a bus error; Docker gives a container 64 MB.
So the batch size is chosen before anything is measured, the same for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

MIB = 1024 * 1024
# Interpreter with torch: the consumer, and what each worker process adds to it.
CONSUMER_BYTES = 500 * MIB
WORKER_BYTES = 150 * MIB
# What is left to everybody else.
USABLE = 0.85


class DoesNotFit(Exception):
    """Not even batches of one sample fit; the message says what to raise."""


@dataclass(frozen=True)
class Demand:
    """Bytes that a candidate needs at its peak, or that there are."""

    memory: int
    shm: int

    def __add__(self, other: Demand) -> Demand:
        return Demand(self.memory + other.memory, self.shm + other.shm)

    def fits(self, room: Demand) -> bool:
        """Whether there is room for it."""
        return self.memory <= room.memory and self.shm <= room.shm


def demand(
    batch_bytes: int, workers: int, prefetch_factor: int, queued_per_worker: int = 0, dataset_bytes: int = 0
) -> Demand:
    """What `workers` workers need for batches of `batch_bytes`.

    Finished or in production: prefetch_factor batches a worker; held by the consumer: one, and
    the one before it, which goes only when the next has come. A worker has besides the samples of
    one batch that it has not collated yet. Some peers queue more, in their own memory:
    `queued_per_worker` batches. Of a large dataset the consumer has one copy, a second one while it pickles
    it for a worker process, and each of these one more.
    """
    shared = batch_bytes * (prefetch_factor * workers + 2)
    own = batch_bytes * workers * (1 + queued_per_worker)
    copies = dataset_bytes * (2 + workers)
    return Demand(shared + own + copies + CONSUMER_BYTES + WORKER_BYTES * workers, shared)


def room(memory: Mapping[str, Mapping]) -> Demand:
    """What all trials together may use, on the tightest twin; `memory` as for `fit`."""
    return Demand(*(int(min(has[name] for has in memory.values()) * USABLE) for name in ("available", "shm_free")))


def together[T](candidates: Iterable[T], demand: Callable[[T], Demand], has: Demand | None) -> list[list[T]]:
    """The candidates in groups that fit into memory at the same time, in the order given; None has room for all."""
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
    """(batch size, warnings): `requested`, halved until it fits every twin.

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
        # The first reason names what the user would have to provide for the size asked for.
        warnings = warnings or short
        if size == 1:
            raise DoesNotFit("not even batches of one sample fit: " + "; ".join(short))
        size //= 2
    if size != requested:
        warnings = [f"batch size {size} instead of {requested}, for all candidates: {reason}" for reason in warnings]
    return size, warnings
