"""Records counts and times of an epoch while the epoch runs. ``diagnosis.statistics`` makes
``LoaderStatistics`` of them.

No locks. A worker thread alone writes its ``WorkerTimes``. Only the consumer (with worker threads:
the thread that holds the iterator's lock) writes an ``EpochRecord``. Another thread that reads a
record during an update may see some numbers from before a batch and some from after it.
"""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

_BINS_PER_DOUBLING = 4
# power of two of the seconds below which all waits are in the first bin: a microsecond
_SHORTEST = -20
_BINS = 32 * _BINS_PER_DOUBLING  # up to 70 minutes
# seconds; asking the system for a thread's CPU time and its waits for a CPU takes ten microseconds
READ_EVERY = 0.02
_ADDED = (
    *("batches", "samples", "nbytes", "skipped", "waited", "first_batch", "sampling", "starting"),
    *("shm_full", "ready"),
)
_OVERLAPPING = 8  # epochs that may run at the same time, each in an iterator of its own


@dataclass(eq=False)
class WorkerTimes:
    """Times of one worker, or of one batch, in seconds,
    and the numbers of page faults and of samples loaded.
    """

    loading: float = 0.0
    collating: float = 0.0
    cpu: float = 0.0  # on a CPU
    queued: float = 0.0  # ready to run, but waiting for a CPU
    faults: int = 0  # page faults of a worker thread
    samples: int = 0
    copying: float = 0.0  # making a worker thread's copy of the dataset
    copied: int = 0  # bytes of that copy, or more
    # True while a worker thread executes a task; no field, since the statistics have the fields
    busy = False

    def add(self, other: "WorkerTimes", sign: int = 1) -> "WorkerTimes":
        """Add the numbers of *other*, or subtract them if *sign* is -1, and return this object."""
        self.loading += sign * other.loading
        self.collating += sign * other.collating
        self.cpu += sign * other.cpu
        self.queued += sign * other.queued
        self.faults += sign * other.faults
        self.samples += sign * other.samples
        self.copying += sign * other.copying
        self.copied += sign * other.copied
        return self


def seconds_queued() -> float:
    """Return the total seconds that the calling thread was ready to run but had no CPU;
    0 if that is unknown.
    """
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            # nanoseconds on a CPU, nanoseconds queued, turns
            return int(file.read(64).split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class EpochRecord:
    """Counts and times of one epoch, or sums over several. For attributes that
    ``LoaderStatistics`` has too, see there.

    *workers*: each worker's times, which may include earlier epochs. *used*: number of workers that
    get tasks at the start (None: all). *max_workers*: the most workers that may get tasks, if their
    number can change; else None.
    """

    def __init__(
        self,
        worker_method: str,
        workers: list[WorkerTimes],
        shares: bool = False,
        used: int | None = None,
        max_workers: int | None = None,
    ) -> None:
        self.worker_method = worker_method  # "thread", "process" or "none"
        # True if each worker loads its own share of the samples, however long that takes
        self.shares = shares
        self.workers = workers  # not copied: a worker thread puts its own object here
        self._before = [WorkerTimes().add(times) for times in self.workers]
        self._started = self._latest = time.perf_counter()
        self._earlier_seconds = 0.0  # of epochs that were added
        if used is None:
            used = len(workers)
        # of workers, each from a time in seconds on
        self.numbers = [(0.0, used)]
        self._most_used = used
        self._earlier_worker_seconds = 0.0
        self.max_workers = max_workers
        self.batches = self.samples = self.nbytes = self.skipped = 0
        self.waited = self.wait_max = 0.0
        self.starting = 0.0  # seconds until the worker processes had started
        self.first_batch = 0.0  # seconds of waited for the epoch's first batch
        self.sampling = 0.0  # seconds of waited in the sampler
        self.shm_full = 0  # batches lost because worker processes had no shared memory left
        self.ready = 0  # batches that were ready when the consumer asked, summed over its requests
        self.waits = [0] * _BINS

    @property
    def seconds(self) -> float:
        """Seconds from an epoch's start to its latest return from ``next()``,
        added up over the recorded epochs.
        """
        return self._earlier_seconds + self._latest - self._started

    def uses(self, number: int) -> None:
        """Record that *number* workers get tasks from now on."""
        self._most_used = max(self._most_used, number)
        # a new list: others read it
        self.numbers = [*self.numbers, (time.perf_counter() - self._started, number)]

    @property
    def worker_seconds(self) -> float:
        """Seconds that each worker was in use, busy or idle, summed over the workers."""
        seconds = self._latest - self._started
        ends = [*(start for start, _ in self.numbers[1:]), seconds]
        pairs = zip(self.numbers, ends)
        in_use = sum(number * max(0.0, min(end, seconds) - start) for (start, number), end in pairs)
        return self._earlier_worker_seconds + in_use

    def made_iterator(self) -> None:
        """Record that ``iter()`` returns now.
        The time since the epoch's start counts as waiting.
        """
        self._latest = time.perf_counter()
        self.waited += self._latest - self._started

    def returned(self, since: float, ready: int, sampling: float) -> None:
        """Record that ``next()``, called at the time *since* (``perf_counter``),
        now returns a batch.

        *ready*: number of built batches at the time of the call. *sampling*: seconds of the call
        spent in the sampler.
        """
        self._latest = time.perf_counter()
        self.sampling += sampling
        wait = self._latest - since
        self.waited += wait
        if not self.first_batch:
            self.first_batch = self.waited
        self.wait_max = max(self.wait_max, wait)
        self.ready += ready
        # wait = fraction * 2**power, with a fraction from 0.5 to 1
        fraction, power = math.frexp(wait)
        place = 0
        if power >= _SHORTEST:
            place = (power - _SHORTEST) * _BINS_PER_DOUBLING + int(fraction * 8) - 4
        if place >= _BINS:
            place = -1
        self.waits[place] += 1

    def handed_over(self, fetched: Any, worker_id: int) -> None:
        """Count the batch *fetched*. A worker thread adds its times itself;
        for other workers, add them.
        """
        if self.worker_method == "process" and not self.batches:
            self.starting = max(0.0, fetched.began - self._started)  # processes have the same clock
        self.batches += fetched.times.samples > 0
        self.samples += fetched.times.samples
        self.nbytes += fetched.nbytes
        self.skipped += len(fetched.skipped)
        if self.worker_method != "thread":
            self.workers[worker_id].add(fetched.times)

    def wait_at(self, share: float) -> float:
        """Return the quantile at *share* (0 to 1) of the waits in ``next()``, in seconds; or up to
        25% more than it.
        """
        left = share * sum(self.waits)
        for place, count in enumerate(self.waits):
            left -= count
            if count and left <= 0:
                power, part = divmod(place, _BINS_PER_DOUBLING)
                return min(self.wait_max, math.ldexp((part + 5) / 8, power + _SHORTEST))
        return 0.0

    def worker_times(self) -> list[WorkerTimes]:
        """Return each worker's times in the recorded epochs. Leave out spare workers that were
        never in use.
        """
        times = [
            WorkerTimes().add(now).add(before, -1)
            for now, before in zip(self.workers, self._before)
        ]
        while len(times) > self._most_used and not times[-1].samples:
            # any of the workers may be those in use
            times.pop()
        return times

    def add(self, other: "EpochRecord") -> None:
        """Add *other*, the record of a later epoch, worker by worker. ``worker_method`` becomes
        that of *other*.
        """
        self.worker_method, self.shares, self.max_workers = (
            other.worker_method,
            other.shares,
            other.max_workers,
        )
        own_times, other_times = self.worker_times(), other.worker_times()
        own_times += [WorkerTimes() for _ in other_times[len(own_times) :]]
        self.workers = [times.add(more) for times, more in zip(own_times, other_times)] + own_times[
            len(other_times) :
        ]
        self._before = [WorkerTimes() for _ in self.workers]
        self.numbers, self._most_used = other.numbers, len(self.workers)
        for name in _ADDED:
            # before the seconds, of which some are a part: see _RECORDED of the statistics
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._earlier_worker_seconds += other.worker_seconds
        self._earlier_seconds += other.seconds
        self.wait_max = max(self.wait_max, other.wait_max)
        self.waits = [count + more for count, more in zip(self.waits, other.waits)]


class EpochRecords:
    """Records of all epochs of one loader. The thread that starts an epoch adds a record. Any
    thread may read them.
    """

    def __init__(self) -> None:
        # The sum of earlier epochs, then the latest ones. A tuple that is replaced, so that no
        # reader finds an epoch twice.
        self._records: tuple[EpochRecord, ...] = EpochRecord("none", []), EpochRecord("none", [])
        # why the latest iterator has threads or processes; None without workers
        self.reason: str | None = None

    @property
    def latest(self) -> EpochRecord:
        return self._records[-1]

    def begin(self, record: EpochRecord) -> None:
        """Make *record* the latest one. Merge all records but the last _OVERLAPPING into one.

        The epochs of the last _OVERLAPPING records may still run.
        """
        records = *self._records, record
        merged = max(1, len(records) - _OVERLAPPING)
        self._records = _sum(records[:merged]), *records[merged:]

    def total(self) -> EpochRecord:
        """Return one record with the sums over all epochs."""
        return _sum(self._records)


def _sum(records: Iterable[EpochRecord]) -> EpochRecord:
    total = EpochRecord("none", [])
    for record in records:
        total.add(record)
    return total
