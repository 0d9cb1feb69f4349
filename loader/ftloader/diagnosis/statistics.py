"""The public record of what a loader has done: ``DataLoader.statistics()``."""

import dataclasses
import math
import os
import sys
from typing import Any

from ftloader.diagnosis.recording import EpochRecord

_KEEPS_UP = 0.05  # share of the time; a loop that waits less has its data in time
_BUSY = 0.7  # share of the time; workers that load more are what limits
_COMPUTES = 0.6  # share of the busy time on a CPU; below it, loading mostly waits
_STRAGGLES = 3.0  # times as long a sample as the median worker
_LOCKED = 0.1  # share of looks that found a busy worker waiting for a lock; without a lock it is 0


@dataclasses.dataclass(frozen=True)
class WorkerStatistics:
    """What one worker has done: its samples, and seconds of loading, of collating and of CPU time."""

    samples: int
    loading: float
    collating: float
    cpu: float


@dataclasses.dataclass(frozen=True)
class Statistics:
    """Statistics of an epoch, or of all epochs since the loader was made. Times are in seconds.

    ``str()`` says in three lines what happened, what limits the loop, and what to change.
    """

    worker_method: str  # "thread", "process", or "none" without workers
    num_workers: int
    seconds: float  # from the epoch's start to the latest return of next(), without the time between epochs
    batches: int  # handed over
    samples: int
    skipped: int  # samples left out by on_error
    nbytes: int  # in the batches' tensors and arrays
    starting: float  # of seconds, until worker processes had started; 0 for threads
    waited: float  # in next()
    wait_median: float  # of one call of next(); this and the next two up to 25% too long
    wait_95: float
    wait_99: float
    wait_max: float
    ready: float  # batches that waited for the loop when it asked, on average
    loading: float  # in dataset[i], summed over the workers
    collating: float  # in collate_fn, summed over the workers
    cpu: float  # CPU time, summed over the workers; of threads up to 10 ms less
    workers: tuple[WorkerStatistics, ...]
    memory_held: int  # bytes of batch memory that the loader keeps for reuse or has lent; 0 with processes
    memory_peak: int  # the largest value of memory_held
    locked: float | None  # share of looks at busy threads that found one waiting for a lock; None if nobody looked
    running: float | None  # share of these looks that found one computing, or waiting for a CPU
    gil: bool  # True if the GIL is on
    cpus: int  # that this process may use

    @property
    def waited_share(self) -> float:
        """Share of the loop's time spent waiting for data, from 0 to 1."""
        return self.waited / self.seconds if self.seconds else 0.0

    @property
    def busy_share(self) -> float:
        """Share of the workers' time since they had started spent loading and collating, from 0 to 1."""
        available = (self.seconds - self.starting) * max(1, self.num_workers)
        return min(1.0, (self.loading + self.collating) / available) if available > 0 else 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers as a dictionary that ``json.dumps`` takes."""
        return dataclasses.asdict(self) | {"waited_share": self.waited_share, "busy_share": self.busy_share}

    def __str__(self) -> str:
        if not self.batches:
            return "no batch has been handed over yet"
        limit, remedy = _limit(self)
        kind = {"thread": "thread", "process": "process", "none": "worker"}[self.worker_method]
        workers = f"{self.num_workers} {kind}{'' if self.num_workers == 1 else 'es' if kind == 'process' else 's'}"
        return "\n".join(
            (
                f"{self.batches} batches, {self.samples} samples in {self.seconds:.1f} s "
                f"({self.samples / self.seconds:.0f} samples/s) by {workers}; the loop waited for data "
                f"{self.waited_share:.0%} of the time",
                f"limit: {limit}",
                f"change: {remedy}",
            )
        )


def statistics(record: EpochRecord | None, memory: tuple[int, int]) -> Statistics:
    """Return the statistics of *record*. *memory*: bytes held now, and the most so far."""
    record = EpochRecord("none", []) if record is None else record
    workers = record.worker_times()
    calls = sum(record.waits)
    return Statistics(
        worker_method=record.method,
        num_workers=0 if record.method == "none" else len(workers),
        seconds=record.seconds,
        batches=record.batches,
        samples=record.samples,
        skipped=record.skipped,
        nbytes=record.nbytes,
        starting=record.starting,
        waited=record.waited,
        wait_median=record.wait_at(0.5),
        wait_95=record.wait_at(0.95),
        wait_99=record.wait_at(0.99),
        wait_max=record.longest_wait,
        ready=record.ready / calls if calls else 0.0,
        loading=sum(times.loading for times in workers),
        collating=sum(times.collating for times in workers),
        cpu=sum(times.cpu for times in workers),
        workers=tuple(WorkerStatistics(t.samples, t.loading, t.collating, t.cpu) for t in workers),
        memory_held=memory[0],
        memory_peak=memory[1],
        locked=record.locked / record.looks if record.looks else None,
        running=record.running / record.looks if record.looks else None,
        gil=sys._is_gil_enabled(),
        cpus=os.process_cpu_count() or 1,
    )


def _straggler(workers: tuple[WorkerStatistics, ...]) -> int | None:
    """Return the number of a worker that takes several times as long for a sample as the median worker, if any."""
    times = [each.loading / each.samples if each.samples else 0.0 for each in workers]
    middle = sorted(times)[len(times) // 2] if len(times) > 2 else math.inf
    slowest = max(range(len(times)), key=times.__getitem__, default=0)
    return slowest if times and times[slowest] > _STRAGGLES * middle > 0 else None


def _limit(found: Statistics) -> tuple[str, str]:
    """Return what limits the loop, by how much, and what to change."""
    workers, cpus = found.num_workers, found.cpus
    waited = f"{found.waited_share:.0%}"
    if found.waited_share < _KEEPS_UP:
        needed = max(1, math.ceil(found.busy_share * workers * 1.25))
        fewer = f"num_workers={needed} would do; " if workers and needed < workers else ""
        return f"the loop: its data is ready ({found.ready:.1f} batches when it asks)", f"{fewer}nothing else"
    if not workers:
        return f"no workers: the loop loads its data itself, {waited} of the time", f"num_workers={cpus}"
    if (slow := _straggler(found.workers)) is not None and found.worker_method == "process":
        return f"worker {slow}, which takes {_STRAGGLES:.0f} times as long a sample as the others, or more", (
            "look at what that worker loads; with in_order=False the loop does not wait for it"
        )
    busy = found.loading + found.collating
    if found.busy_share < _BUSY:
        if found.worker_method == "process":
            return f"the hand-over from processes: workers are busy only {found.busy_share:.0%} of the time", (
                'worker_method="thread", or larger batches'
            )
        return f"the hand-over: workers are busy only {found.busy_share:.0%} of the time", "larger batches"
    if found.collating > busy / 2:
        return f"collate_fn: {found.collating / busy:.0%} of the workers' busy time", "make collate_fn cheaper"
    return _limit_of_loading(found, busy, cpus)


def _limit_of_loading(found: Statistics, busy: float, cpus: int) -> tuple[str, str]:
    workers = found.num_workers
    used = f"{workers} busy workers use {found.cpu / found.seconds:.1f} of {cpus} CPUs"
    locked = found.locked is not None and found.locked > _LOCKED
    if found.running is not None:
        computes = found.running > 0.5
    else:
        computes = found.cpu > _COMPUTES * busy
    if computes and found.gil and found.worker_method == "thread" and workers > 1 and found.cpu < 1.2 * found.seconds:
        # Looking at threads takes the GIL and gives it back, which lets them run: waits for it cannot be seen.
        elsewhere = "" if found.cpu > 0.8 * found.seconds else ", or other programs on its CPUs"
        return f"the GIL{elsewhere}: {used}", 'worker_method="process", or a Python without the GIL'
    if locked:
        return f"a lock in the dataset: {used}, and wait for it", (
            "hold the lock for less time, or give each thread an object of its own"
        )
    if not computes:
        return f"the dataset, which waits (disk, network): {used}", f"num_workers={workers * 2}"
    if workers < cpus:
        return f"the dataset, which computes: {used}", f"num_workers={min(cpus, workers * 2)}"
    fewer = f"; num_workers={cpus} is enough" if workers > 2 * cpus else ""
    return f"the dataset, which computes: {used}", f"a cheaper dataset[i], or more CPUs{fewer}"
