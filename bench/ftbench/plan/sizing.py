"""The choice of a batch size that fits into memory and, for worker processes, into /dev/shm.

When /dev/shm is full, writing to it raises no error but kills the process with a bus error
(mmap(2), SIGBUS); Docker gives a container 64 MB. So the batch size is chosen before anything is
measured, the same for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

MIB = 1024 * 1024
# Memory of the consumer (an interpreter with torch), and of each worker in addition (64 threads
# added 140 MiB).
CONSUMER_BYTES = 500 * MIB
PROCESS_BYTES, THREAD_BYTES = 150 * MIB, 3 * MIB
# The part of free memory that trials may use; other processes need the rest.
USABLE = 0.85


class DoesNotFit(Exception):
    """Raised if not even batches of one sample fit into memory;
    the message says which limit to raise.
    """


class BudgetTooShort(DoesNotFit):
    """Raised if even the lowest number of rounds is expected
    to take longer than the rest of --budget.
    """


@dataclass(frozen=True)
class Demand:
    """Bytes of memory and of /dev/shm: either a candidate's need at its peak, or the bytes that
    trials may use.
    """

    memory: int
    shm: int

    def __add__(self, other: Demand) -> Demand:
        return Demand(self.memory + other.memory, self.shm + other.shm)

    def or_more(self, other: Demand) -> Demand:
        """Return the larger of both, for memory and /dev/shm separately."""
        return Demand(max(self.memory, other.memory), max(self.shm, other.shm))

    def fits(self, room: Demand) -> bool:
        return self.memory <= room.memory and self.shm <= room.shm


def batches_under_way(prefetch_factor: int, workers: int) -> int:
    """Return the number of batches in memory at a time: all prefetched ones and the consumer's
    current and next one.
    """
    # The consumer releases a batch only when it has the next one (see ftloader.iterators.prefetch).
    return prefetch_factor * workers + 2


def demand(
    batch_bytes: int,
    workers: int,
    prefetch_factor: int,
    processes: bool,
    queued_per_worker: int = 0,
    dataset_bytes: int = 0,
    ranks: int = 1,
) -> Demand:
    """Return the bytes that a trial needs at its peak: `ranks` loaders, each with `workers` workers
    and own batches.
    """
    batches = batch_bytes * batches_under_way(prefetch_factor, workers)
    # with the samples that are not collated yet
    in_work = batch_bytes * workers * (1 + queued_per_worker)
    process_bytes, shared, copies = THREAD_BYTES, 0, 1
    if processes:
        process_bytes, shared = PROCESS_BYTES, batches
        copies = 2 + workers  # the consumer holds two while it pickles the dataset
    processes_bytes = CONSUMER_BYTES + process_bytes * workers + copies * dataset_bytes
    return Demand(ranks * (batches + in_work + processes_bytes), ranks * shared)


def room(memory: Mapping[str, Mapping]) -> Demand:
    """Return the memory and /dev/shm that all trials together may use.
    Of each, the twin with the least decides.

    `memory`: see `fit`.
    """
    available = min(map(itemgetter("available"), memory.values()))
    shm_free = min(map(itemgetter("shm_free"), memory.values()))
    return Demand(int(available * USABLE), int(shm_free * USABLE))


def together[T](
    candidates: Iterable[T], demand: Callable[[T], Demand], has: Demand | None
) -> list[list[T]]:
    """Split candidates, in order, into groups whose demands together fit into the limit *has*
    (None: one group).
    """
    groups: list[list[T]] = []
    used = Demand(0, 0)
    for candidate in candidates:
        more = demand(candidate)
        if groups and (has is None or (used + more).fits(has)):
            groups[-1].append(candidate)
            used += more
        else:
            groups.append([candidate])
            used = more
    return groups


def fit(
    requested: int, need: Callable[[int], Demand], workers: int, memory: Mapping[str, Mapping]
) -> tuple[int, list[str]]:
    """Return (batch size, warnings). The size is `requested`, halved until the batches fit into
    every twin's memory.

    `need`: function that returns the Demand of a batch size. `workers`: number of workers, of all
    ranks together, that warnings name. `memory`: {twin: ftrun.environment.memory()}. Raises
    DoesNotFit.
    """
    size, reasons = requested, _lacking(need(requested), workers, memory)
    # The reasons say what the requested size would need.
    short = reasons
    while short:
        if size == 1:
            raise DoesNotFit("not even batches of one sample fit: " + "; ".join(short))
        size //= 2
        short = _lacking(need(size), workers, memory)
    smaller = f"batch size {size} instead of {requested}, for all candidates"
    return size, [f"{smaller}: {reason}" for reason in reasons]


def _lacking(need: Demand, workers: int, memory: Mapping[str, Mapping]) -> list[str]:
    """Return the reason why each twin has too little memory or /dev/shm, with what to do."""
    reasons = []
    for twin, has in memory.items():
        if need.shm > has["shm_free"] * USABLE:
            reasons.append(
                f"/dev/shm of {twin} has {has['shm_free'] / MIB:.0f} MiB free, {workers} worker "
                f"processes need {need.shm / USABLE / MIB:.0f} MiB (raise it: docker run "
                "--shm-size, SHM_SIZE=... with compose)"
            )
        if need.memory > has["available"] * USABLE:
            reasons.append(
                f"{twin} has {has['available'] / MIB:.0f} MiB of memory free, {workers} workers "
                f"need {need.memory / USABLE / MIB:.0f} MiB (raise the container's limit, or use "
                "--workers)"
            )
    return reasons
