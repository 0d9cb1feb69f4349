"""``num_workers="auto"`` compared with the best number of threads, which a sweep finds in the same process.

"auto" finds a number while the loop runs. So a trial first times a loop with each fixed number from 1 to 64, then one
epoch with "auto", then the fixed numbers again, in reverse order, so that a drift of the machine's speed cancels. The
epoch with "auto" knows nothing of the loops before it, and is timed once 50 batches and 5 s have passed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from ftbench.measure.loaders import EpochSampler
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import THREADS, Comparison, ComparisonPlan
from ftbench.plan.scenario import Scenario, Task, Turns
from ftbench.scenarios.pillow import PillowDataset
from ftbench.scenarios.raw import SAMPLE_BYTES, Shards
from ftbench.scenarios.text import Texts

NUMBERS = (1, 2, 4, 8, 16, 32, 64)
"""Fixed numbers of threads."""
SETTLED_BATCHES, SETTLED_SECONDS = 50, 5.0
WARM_SECONDS, TIMED_SECONDS = 0.3, 1.0
AUTO_TIMES = 3
ENOUGH = 0.95
"""Fraction of the highest throughput with which a smaller number of threads counts as good enough."""
ENDLESS = 1 << 40


class Arrays:
    """Dataset whose sample i is an array of 100 kB."""

    def __init__(self) -> None:
        import numpy

        self._full = numpy.full

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> Any:
        return self._full(25_000, index, "float32")


class Remote:
    """Dataset that imitates remote storage by a *delay* (s) of each sample; a *lock* lets one thread load at a time."""

    def __init__(self, dataset: Any, delay: float, lock: bool = False) -> None:
        self._dataset, self.delay = dataset, delay  # another delay may be set at any time
        self._lock = threading.Lock() if lock else contextlib.nullcontext()

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        with self._lock:
            if self.delay:
                time.sleep(self.delay)
            return self._dataset[index]


def dataset(task: Task) -> Any:
    """Return the dataset of the task's case."""
    from ftbench.measure.augmentation import Augmented

    delay = task.parameters.get("delay", 0.0)
    return {
        "jpeg": lambda: Remote(PillowDataset(task.paths), delay),
        "augmented": lambda: Augmented(task.paths, "heavy"),
        "text": Texts,
        "raw": lambda: Shards(task.paths, SAMPLE_BYTES),
        "arrays": lambda: Remote(Arrays(), delay, task.parameters.get("lock", False)),
        "integers": lambda: range(1 << 16),
    }[task.parameters["load"]]()


def run(batches: Iterator, pause: float, least: int, seconds: float) -> float:
    """Take *least* or more batches, for *seconds* s or longer, and sleep *pause* s after each; return the batches/s."""
    count, begin = 0, time.perf_counter()
    while True:
        next(batches)
        count += 1
        if pause:
            time.sleep(pause)
        passed = time.perf_counter() - begin
        if count >= least and passed >= seconds:
            return count / passed


def _loader(task: Task, samples: Any, number: int | str) -> Any:
    from ftloader import DataLoader

    sampler = EpochSampler(len(samples), task.batch_size)
    sampler.numbers = range(ENDLESS)
    return DataLoader(samples, batch_size=task.batch_size, sampler=sampler, num_workers=number, worker_method="thread")


def fixed(task: Task, samples: Any, number: int, pause: float) -> float:
    """Return the samples/s of a loop over a loader with *number* threads. The loop sleeps *pause* s after a batch."""
    with contextlib.closing(iter(_loader(task, samples, number))) as batches:
        run(batches, pause, 1, WARM_SECONDS)
        return run(batches, pause, 2, TIMED_SECONDS) * task.batch_size


def auto(task: Task, samples: Any, pause: float, then: float | None) -> tuple[float, Any]:
    """Return the samples/s of a loop with "auto", and the loader's statistics.

    *then*: delay (s) that samples get after the first part of the epoch, in which "auto" can settle; None for no delay.
    """
    loader = _loader(task, samples, "auto")
    with contextlib.closing(iter(loader)) as batches:
        if then is not None:
            run(batches, pause, SETTLED_BATCHES, SETTLED_SECONDS)
            samples.delay = then
        run(batches, pause, SETTLED_BATCHES, SETTLED_SECONDS)
        # As long as for fixed numbers, since batches that come in bursts make short times look a little too good.
        rates = [run(batches, pause, 2, TIMED_SECONDS) for _ in range(AUTO_TIMES)]
        return fmean(rates) * task.batch_size, loader.statistics()


def best(before: Sequence[float], after: Sequence[float]) -> tuple[float, int]:
    """Return (rate of the best number of threads, position of the smallest number that is almost as fast).

    *before* and *after* are the rates of two sweeps. The number that is best in one sweep is judged by its rate in the
    other, because the highest of several noisy rates is, on average, too high.
    """
    judged = [
        values[max(range(len(others)), key=others.__getitem__)] for values, others in ((before, after), (after, before))
    ]
    rate, means = fmean(judged), _means(before, after)
    enough = min(ENOUGH * rate, max(means))
    return rate, next(place for place, mean in enumerate(means) if mean >= enough)


def _means(before: Sequence[float], after: Sequence[float]) -> list[float]:
    """Return the mean rate of each number of threads in two sweeps."""
    return [fmean(pair) for pair in zip(before, after, strict=True)]


def measure(task: Task) -> Turns:
    """Compare "auto" with fixed numbers of threads, in one turn.

    Parameters of the case:

    - "loop": time of a step of the loop, divided by the time for loading a batch with as many threads as CPUs;
    - "then": a delay (s) that samples get in the middle of the epoch with "auto"; with fixed numbers, from the start.

    Returns the metrics:

    - of_best: throughput with "auto", divided by that of the best fixed number;
    - threads_of_fewest: threads with "auto", divided by the smallest fixed number within 5% of the best throughput;
    - throughput: with "auto" (samples/s).

    Returns as distributions the throughput of each fixed number, and the course of the number of threads with "auto".
    """
    yield
    samples, then, pause = task.dataset(), task.parameters.get("then"), 0.0
    if loop := task.parameters.get("loop"):
        pause = loop * task.batch_size / fixed(task, samples, task.workers, 0.0)
    local = getattr(samples, "delay", 0.0)

    def sweep(numbers: Sequence[int]) -> list[float]:
        if then is not None:
            samples.delay = then
        return [fixed(task, samples, number, pause) for number in numbers]

    before = sweep(NUMBERS)
    if then is not None:
        samples.delay = local
    rate, found = auto(task, samples, pause, then)
    after = sweep(NUMBERS[::-1])[::-1]
    best_rate, place = best(before, after)
    moments, threads = zip(*found.numbers)
    return {
        "metrics": {
            "of_best": rate / best_rate,
            "threads_of_fewest": found.num_workers / NUMBERS[place],
            "throughput": rate,
        },
        "distributions": {
            "fixed": {
                "unit": "samples/s",
                "values": _means(before, after),
                "over": {"title": "threads", "values": list(NUMBERS)},
            },
            "threads": {
                "unit": "threads",
                "values": list(threads),
                "over": {"title": "seconds since the epoch began", "values": list(moments)},
            },
        },
        "samples": found.samples,
    }


def _case(name: str, title: str, batch_size: int, source: str | None = None, **parameters: Any) -> Case:
    amount = Amount(batch_size, batches_per_worker=SETTLED_BATCHES)
    return Case(name, title, parameters, source=source, full=amount)


CASES = (
    _case("jpeg", "JPEG decoding", 32, "images", load="jpeg"),
    _case("50-ms", "50 ms of latency", 16, load="arrays", delay=0.05),
    _case("slow-loop", "JPEGs, a loop three times slower than loading", 32, "images", load="jpeg", loop=3.0),
    _case("augment", "heavy augmentation of JPEGs", 16, "images", load="augmented"),
    _case("text", "text in Python", 64, load="text"),
    _case("5-ms", "5 ms of latency", 32, load="arrays", delay=0.005),
    _case("lock", "2 ms of latency, a lock held for the whole sample", 32, load="arrays", delay=0.002, lock=True),
    _case("change", "JPEGs from the disk, then from 20 ms away", 32, "images", load="jpeg", then=0.02),
    _case("raw", "4 MiB from files in the page cache", 8, "shards", load="raw"),
    _case("integers", "integers", 256, load="integers"),
)

SCENARIO = Scenario(
    name="autotune",
    question='With num_workers="auto", how close does the loop come to the best number of threads?',
    description='the loop with num_workers="auto", against the best of 1 to 64 threads in the same process',
    sample_bytes=100_000,
    dataset=dataset,
    measure=measure,
    metrics=("of_best", "threads_of_fewest", "throughput"),
    plan=ComparisonPlan(
        (Comparison(THREADS["ft"]), Comparison(THREADS["gil"])), CASES, quick_cases=("jpeg", "50-ms", "slow-loop")
    ),
    case_axis="load",
    full=Amount(batch_size=32, batches_per_worker=SETTLED_BATCHES, seconds=1800),
    quick=Amount(batch_size=32, batches_per_worker=SETTLED_BATCHES, seconds=600),
    workers=lambda cpus: [cpus],  # with which "auto" starts
    same_work=False,
)
