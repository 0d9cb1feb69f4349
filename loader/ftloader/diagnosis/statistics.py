"""The result of ``DataLoader.statistics()``: what a loader has done, what limits the training loop,
what to change.
"""

import dataclasses
import math
import sys
from typing import Any

from ftloader.diagnosis.limits import usable_cpus
from ftloader.diagnosis.page_faults import faults_note
from ftloader.diagnosis.recording import EpochRecord

_KEEPS_UP = 0.05  # share of the time; a loop that waits less has its data in time
_BUSY = 0.7  # share of the time; workers that load more are what limits
# share of the busy time on a CPU or waiting for one; below it,
# loading mostly waits for other things
_COMPUTES = 0.6
# share of the CPUs' time; workers that wait for a CPU and get less share the CPUs with others
_ALL_CPUS = 0.8
_STRAGGLES = 3.0  # times as long a sample as the median worker
# range of the seconds on a CPU, or waiting for one, per second of threads that share the GIL
_ONE_CPU = 0.8, 1.2
# Fields that an ``EpochRecord`` has under the same name, in the order in which they are read:
# "seconds" after its parts, since the epoch may go on. Then the fields that are sums over the
# workers.
_RECORDED = (
    *(
        "worker_method",
        "max_workers",
        "starting",
        "first_batch",
        "sampling",
        "waited",
        "worker_seconds",
        "seconds",
    ),
    *("batches", "samples", "skipped", "nbytes", "wait_max", "shares", "shm_full"),
)
_SUMMED = ("loading", "collating", "cpu", "queued", "faults", "copying", "copied")
MORE_SHM = (
    'worker_method="thread" needs none; else smaller batches, fewer workers, or more '
    "(docker run --shm-size=8g)"
)


@dataclasses.dataclass(frozen=True)
class WorkerStatistics:
    """Counts and times of one worker. ``LoaderStatistics`` has the sums over the workers,
    and describes each number.
    """

    samples: int
    loading: float
    collating: float
    cpu: float
    queued: float
    faults: int
    copying: float
    copied: int


@dataclasses.dataclass(frozen=True)
class LoaderStatistics:
    """Statistics of an epoch, or of all epochs since the loader was made. Times are in seconds.

    ``str()`` says in three lines what happened, what limits the training loop, and what to change.
    A fourth line has the ``note``, if there is one.
    """

    worker_method: str  # "thread", "process", or "none" without workers
    num_workers: int  # used now
    # of workers used in the latest epoch, each from a time in seconds on
    numbers: tuple[tuple[float, int], ...]
    max_workers: int | None  # with num_workers="auto", unless it is fixed; else None
    worker_seconds: float  # sum of the times for which each worker was used
    # from the epoch's start to the latest return of next(), without the time between epochs
    seconds: float
    batches: int  # handed over
    samples: int
    skipped: int  # samples left out by on_error
    nbytes: int  # in the batches' tensors and arrays
    starting: float  # of seconds, until worker processes had started; 0 for threads
    waited: float  # in iter() and next()
    first_batch: float  # of waited, for the epoch's first batch
    sampling: float  # of waited, in the sampler
    wait_median: float  # of one call of next(); this and the next two up to 25% too long
    wait_95: float
    wait_99: float
    wait_max: float
    ready: float  # batches that waited for the loop when it asked, on average
    loading: float  # in dataset[i], summed over the workers
    collating: float  # in collate_fn, summed over the workers
    # CPU time, summed over the workers; this and the next up to 20 ms a worker too short
    cpu: float
    # ready to run, but waiting for a CPU, summed over the workers; 0 where the system does not tell
    queued: float
    # page faults without input or output, summed over worker threads; up to 20 ms a worker too few
    faults: int
    copying: float  # making copies of the dataset (copy_dataset), summed over worker threads
    copied: int  # bytes of these copies, or more: small objects are larger than their pickles
    workers: tuple[WorkerStatistics, ...]
    # True if each worker loads its own share of the samples, so that the loop waits for the slowest
    shares: bool
    shm_full: int  # batches lost because worker processes had no shared memory left
    # bytes of batch memory that the loader keeps for reuse or has lent; 0 with processes
    memory_held: int
    memory_peak: int  # the largest value of memory_held
    gil: bool  # True if the GIL is on
    cpus: int  # that this process may use
    note: str | None  # a cost that another setting of the interpreter avoids

    @property
    def waited_share(self) -> float:
        """Fraction of the training loop's time spent waiting for data, from 0 to 1."""
        return self.waited / self.seconds if self.seconds else 0.0

    @property
    def busy_share(self) -> float:
        """Fraction (0 to 1) of the workers' time, after they have started,
        spent loading and collating.
        """
        available = self.worker_seconds - self.starting * self.num_workers
        return min(1.0, (self.loading + self.collating) / available) if available > 0 else 0.0

    @property
    def has_begun(self) -> bool:
        """True if a batch was handed over, or lost."""
        return bool(self.batches or self.shm_full)

    @property
    def workers_used(self) -> str:
        """The workers in words, such as "2 threads"; "no workers" without any."""
        if not self.num_workers:
            return "no workers"
        ending = "es" if self.worker_method == "process" else "s"
        if self.num_workers == 1:
            ending = ""
        return f"{self.num_workers} {self.worker_method}{ending}"

    def advice(self) -> tuple[str, str]:
        """Return two phrases: what limits the training loop, and what to change. Both are empty
        before the first batch.
        """
        if not self.has_begun:
            return "", ""
        return _limit(self)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields and properties, and the advice ("limit" and "change"), as a dictionary
        that ``json.dumps`` accepts.
        """
        limit, remedy = self.advice()
        return dataclasses.asdict(self) | {
            "waited_share": self.waited_share,
            "busy_share": self.busy_share,
            "limit": limit,
            "change": remedy,
        }

    def __str__(self) -> str:
        if not self.has_begun:
            return "no batch has been handed over yet"
        limit, remedy = self.advice()
        workers = f"by {self.workers_used}" if self.num_workers else "without workers"
        rate = f" ({self.samples / self.seconds:.0f} samples/s)" if self.seconds else ""
        return "\n".join(
            (
                f"{self.batches} batches, {self.samples} samples in {self.seconds:.1f} s{rate} "
                f"{workers}; the loop waited for data {self.waited_share:.0%} of the time",
                f"limit: {limit}",
                f"change: {remedy}",
                *([f"note: {self.note}"] if self.note else []),
            )
        )


def statistics(record: EpochRecord, memory: tuple[int, int]) -> LoaderStatistics:
    """Return the statistics of *record*. *memory*: bytes of batch memory held now, and the most
    held so far.
    """
    workers = record.worker_times()
    calls = sum(record.waits)
    summed = {name: sum(getattr(times, name) for times in workers) for name in _SUMMED}
    return LoaderStatistics(
        **{name: getattr(record, name) for name in _RECORDED},
        **summed,
        num_workers=0 if record.worker_method == "none" else record.numbers[-1][1],
        numbers=() if record.worker_method == "none" else tuple(record.numbers),
        wait_median=record.wait_at(0.5),
        wait_95=record.wait_at(0.95),
        wait_99=record.wait_at(0.99),
        ready=record.ready / calls if calls else 0.0,
        workers=tuple(WorkerStatistics(**dataclasses.asdict(times)) for times in workers),
        memory_held=memory[0],
        memory_peak=memory[1],
        gil=sys._is_gil_enabled(),
        cpus=usable_cpus(),
        note=faults_note(summed["faults"], record.samples, summed["cpu"], memory[1]),
    )


def _straggler(workers: tuple[WorkerStatistics, ...]) -> int | None:
    """Return the slowest worker's id if its time per sample is
    several times the median worker's, else None.
    """
    times = [worker.loading / worker.samples if worker.samples else 0.0 for worker in workers]
    middle = sorted(times)[len(times) // 2] if len(times) > 2 else math.inf
    slowest = max(range(len(times)), key=times.__getitem__, default=0)
    return slowest if times and times[slowest] > _STRAGGLES * middle > 0 else None


def _limit(totals: LoaderStatistics) -> tuple[str, str]:
    """Return two phrases: what limits the training loop (with numbers), and what to change."""
    workers, processes = totals.num_workers, totals.worker_method == "process"
    if totals.shm_full:
        return f"shared memory (/dev/shm): it was full (batches lost: {totals.shm_full})", MORE_SHM
    if totals.starting > totals.seconds / 2:
        return (
            f"the start of the worker processes: {totals.starting:.1f} of {totals.seconds:.1f} s",
            (
                "persistent_workers=True, which starts them once for all epochs; "
                'worker_method="thread" starts at once'
            ),
        )
    if totals.copying > totals.seconds / 2:
        return (
            f"the copies of the dataset: {totals.copying:.1f} of {totals.seconds:.1f} s",
            "persistent_workers=True, which keeps them for all epochs; or fewer workers",
        )
    later = totals.seconds - totals.first_batch
    if later > totals.seconds / 2 and totals.waited - totals.first_batch < _KEEPS_UP * later:
        enough = max(1, math.ceil(totals.busy_share * workers * 1.25))
        fewer = "nothing in the loader"
        if enough < workers and totals.max_workers is None:
            fewer = f"num_workers={enough} would do"
        return f"the loop: {_after_first_batch(totals)}{_ready(totals)}", fewer
    if totals.sampling > totals.waited / 2:
        return f"the sampler: {totals.sampling / totals.seconds:.0%} of the loop's time", (
            "let the sampler draw its indices at once, not one by one in the loop"
        )
    if not workers:
        return (
            f"no workers: the loop loads its data itself, {totals.waited_share:.0%} of the time",
            (f"num_workers={totals.cpus}"),
        )
    if totals.shares and (slow := _straggler(totals.workers)) is not None:
        return (
            (
                f"worker {slow}, which takes {_STRAGGLES:.0f} times as long a sample as the "
                f"others, or more"
            ),
            ("look at what that worker loads; with in_order=False the loop does not wait for it"),
        )
    busy = totals.loading + totals.collating
    runnable = totals.cpu + totals.queued
    saturated = min(busy, runnable) > 0.8 * totals.cpus * (totals.seconds - totals.starting)
    if totals.busy_share < _BUSY and not saturated:
        kind = "worker processes" if processes else "worker threads"
        hand_over = (
            f"the hand-over of batches: {kind} are busy only {totals.busy_share:.0%} of the time"
        )
        if not processes:
            return hand_over, "larger batches"
        small = totals.nbytes < 1_000_000 * totals.batches
        otherwise = (
            "larger batches" if small else "tensors for arrays: tensors travel in shared memory"
        )
        return hand_over, f'worker_method="thread", or {otherwise}'
    if totals.collating > busy / 2:
        return f"collate_fn: {totals.collating / busy:.0%} of the workers' busy time", (
            'make collate_fn cheaper; for torch\'s, worker_method="thread" copies less'
            if processes
            else "make collate_fn cheaper"
        )
    return _limit_of_loading(totals, busy, runnable)


def _limit_of_loading(totals: LoaderStatistics, busy: float, runnable: float) -> tuple[str, str]:
    workers, cpus = totals.num_workers, totals.cpus
    s = "s" if workers == 1 else ""
    used = (
        f"{workers} busy worker{'' if s else 's'} use{s} {totals.cpu / totals.seconds:.1f} "
        f"of {cpus} CPUs"
    )
    crowded = totals.queued > max(totals.cpu, busy / 4)
    if crowded:
        used += f" and wait{s} for a CPU {min(1.0, totals.queued / busy):.0%} of their time"
    least, most = _ONE_CPU
    if (
        totals.gil
        and totals.worker_method == "thread"
        and workers > 1
        and least < runnable / totals.seconds < most
    ):
        # All but one of the threads wait for the GIL: waits that no time shows.
        return f"the GIL: {used}", 'worker_method="process", or a Python without the GIL'
    if runnable <= _COMPUTES * busy:
        return f"the dataset, which waits (disk, network, a lock): {used}", _more(
            totals, workers * 2
        )
    if workers < cpus:
        return f"the dataset, which computes: {used}", _more(totals, min(cpus, workers * 2))
    fewer = (
        f"; num_workers={cpus} is enough"
        if workers > 2 * cpus and totals.max_workers is None
        else ""
    )
    fewer_programs = "fewer other programs, " if _others_compute(totals, busy) else ""
    return (
        f"the dataset, which computes: {used}",
        f"{fewer_programs}a cheaper dataset[i], or more CPUs{fewer}",
    )


def _after_first_batch(totals: LoaderStatistics) -> str:
    """Return why a loop may have its data in time although it waited: for the first batch. Return
    "" if that took little.
    """
    share = totals.first_batch / totals.seconds
    return f"after the first batch ({share:.0%} of the time) " if share >= _KEEPS_UP else ""


def _ready(totals: LoaderStatistics) -> str:
    if not totals.num_workers:
        return "loading takes little of its time"
    return f"its data is ready ({totals.ready:.1f} batches when it asks)"


def _others_compute(totals: LoaderStatistics, busy: float) -> bool:
    """True if other programs have the CPUs that the workers wait for."""
    if totals.num_workers <= totals.cpus:
        return totals.queued > max(totals.cpu, busy / 4)
    # More workers than CPUs also wait for each other. Then other programs are those that have what
    # the workers lack. The loop may have it, too, but not while it waits.
    available = totals.cpus * (totals.waited - totals.starting)
    return totals.queued > busy / 4 and totals.cpu < _ALL_CPUS * available


def _more(totals: LoaderStatistics, number: int) -> str:
    """Return advice on how to get *number* workers, which is more than there are now."""
    if totals.max_workers is None:
        return f"num_workers={number}"
    if totals.num_workers == totals.max_workers:
        return f"max_workers={number}"
    return "nothing: the loader tries other numbers of workers itself, and keeps the best"
