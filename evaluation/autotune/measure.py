"""Compare ``num_workers="auto"`` with the best number of threads,
which a sweep finds in the same process.

    ./twins exec ft python -m evaluation.autotune.measure
    ./twins exec gil python -m evaluation.autotune.measure jpeg 50-ms --rounds 3 --out table.md

"auto" finds a number while the loop runs. So a trial, a fresh process, first times a loop with each
fixed number from 1 to 64, then one epoch with "auto", then the fixed numbers again, in reverse
order, so that a drift of the machine's speed cancels. The epoch with "auto" knows nothing of the
loops before it, and is timed once 50 batches and 5 s have passed. A trial takes half a minute to
two minutes; all loads together take about ten minutes a round.

Each line of the printed table is a load. Its values, one a round, are the throughput with "auto"
divided by that of the best fixed number; and the threads with "auto" divided by the fewest that
come within 5% of the best.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import multiprocessing
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ftbench.data.sources import Sources
from ftbench.measure.augmentation import Augmented
from ftbench.scenarios.pillow import PillowDataset
from ftbench.scenarios.raw import SAMPLE_BYTES, Shards
from ftbench.scenarios.text import Texts
from ftrun import cgroup
from ftrun.options import whole

NUMBERS = (1, 2, 4, 8, 16, 32, 64)
"""Fixed numbers of threads."""
SETTLED_BATCHES, SETTLED_SECONDS = 50, 5.0
WARM_SECONDS, TIMED_SECONDS = 0.3, 1.0
AUTO_TIMES = 3
ENOUGH = 0.95
"""Fraction of the highest throughput with which a smaller number
of threads counts as good enough.
"""
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
    """Dataset that imitates remote storage by a *delay* (s) of each sample.

    With *lock*, one thread loads at a time.
    """

    def __init__(self, dataset: Any, delay: float = 0.0, lock: bool = False) -> None:
        self._dataset, self.delay = dataset, delay  # another delay may be set at any time
        self._lock = threading.Lock() if lock else contextlib.nullcontext()

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        with self._lock:
            if self.delay:
                time.sleep(self.delay)
            return self._dataset[index]


class Endless:
    """Sampler that goes through the samples in order, again and again."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __iter__(self) -> Iterator[int]:
        return (number % self._length for number in range(ENDLESS))

    def __len__(self) -> int:
        return ENDLESS


@dataclass(frozen=True)
class Load:
    """A kind of loading that "auto" is measured with."""

    title: str
    batch_size: int
    dataset: Callable[[list[str]], Any]
    """Function that builds the dataset from the paths of its files."""
    source: str = "nothing"
    """Name of the files that the dataset reads (ftbench.data.sources)."""
    loop: float = 0.0
    """Time of a step of the loop, divided by the time
    for loading a batch with as many threads as CPUs.
    """
    later_delay: float | None = None
    """Delay (s) that samples get in the middle of the epoch with "auto";
    with fixed numbers, from the start.
    """


def images(paths: list[str]) -> Remote:
    """Return a dataset of decoded JPEGs whose delay can be set."""
    return Remote(PillowDataset(paths))


def arrays(paths: list[str], delay: float, lock: bool = False) -> Remote:
    """Return a dataset of arrays that come from far away; it reads no files."""
    return Remote(Arrays(), delay, lock)


LOADS = {
    "jpeg": Load("JPEGs", 32, images, "images"),
    "50-ms": Load("50 ms of latency", 16, functools.partial(arrays, delay=0.05)),
    "slow-loop": Load(
        "JPEGs, a loop three times slower than loading", 32, images, "images", loop=3.0
    ),
    "augment": Load(
        "heavy augmentation of JPEGs", 16, functools.partial(Augmented, amount="heavy"), "images"
    ),
    "text": Load("text in Python", 64, lambda paths: Texts()),
    "5-ms": Load("5 ms of latency", 32, functools.partial(arrays, delay=0.005)),
    "lock": Load(
        "2 ms of latency, a lock held for the whole sample",
        32,
        functools.partial(arrays, delay=0.002, lock=True),
    ),
    "change": Load(
        "JPEGs from the disk, then from 20 ms away", 32, images, "images", later_delay=0.02
    ),
    "raw": Load(
        "4 MiB from files in the page cache", 8, lambda paths: Shards(paths, SAMPLE_BYTES), "shards"
    ),
    "integers": Load("integers", 256, lambda paths: range(1 << 16)),
}
"""All loads, by name."""


@dataclass(frozen=True)
class Result:
    """The figures of one trial."""

    auto_rate: float
    """Throughput with "auto" (samples/s)."""
    best_rate: float
    """Throughput with the best fixed number of threads (samples/s)."""
    auto_threads: int
    fewest_threads: int
    """The smallest fixed number of threads that is almost as fast as the best."""


def run(batches: Iterator, pause: float, least: int, seconds: float) -> float:
    """Take *least* or more batches for at least *seconds* s; return the batches/s.

    The loop sleeps *pause* s after each batch.
    """
    count, begin = 0, time.perf_counter()
    while True:
        next(batches)
        count += 1
        if pause:
            time.sleep(pause)
        passed = time.perf_counter() - begin
        if count >= least and passed >= seconds:
            return count / passed


class Loop:
    """Training loop over a dataset, which times a loader
    with a number of threads or with "auto".
    """

    def __init__(self, load: Load, paths: list[str], cpus: int) -> None:
        self._load, self._dataset, self._pause = load, load.dataset(paths), 0.0
        self._first_delay = getattr(self._dataset, "delay", 0.0)
        if load.loop:
            self._pause = load.loop * load.batch_size / self.fixed(cpus)

    def _loader(self, workers: int | str) -> Any:
        from ftloader import DataLoader

        return DataLoader(
            self._dataset,
            batch_size=self._load.batch_size,
            sampler=Endless(len(self._dataset)),
            num_workers=workers,
            worker_method="thread",
        )

    def fixed(self, workers: int) -> float:
        """Return the samples/s with this number of threads."""
        with contextlib.closing(iter(self._loader(workers))) as batches:
            run(batches, self._pause, 1, WARM_SECONDS)
            return run(batches, self._pause, 2, TIMED_SECONDS) * self._load.batch_size

    def sweep(self, numbers: Sequence[int]) -> list[float]:
        """Return the samples/s with each of these numbers of threads."""
        if self._load.later_delay is not None:
            self._dataset.delay = self._load.later_delay
        return [self.fixed(number) for number in numbers]

    def auto(self) -> tuple[float, int]:
        """Return the samples/s with "auto", and the number of threads at the end."""
        loader = self._loader("auto")
        with contextlib.closing(iter(loader)) as batches:
            if self._load.later_delay is not None:
                self._dataset.delay = self._first_delay
                run(batches, self._pause, SETTLED_BATCHES, SETTLED_SECONDS)
                self._dataset.delay = self._load.later_delay
            run(batches, self._pause, SETTLED_BATCHES, SETTLED_SECONDS)
            # As long as for fixed numbers, since batches that come in bursts make short times look
            # a little too good.
            rates = [run(batches, self._pause, 2, TIMED_SECONDS) for _ in range(AUTO_TIMES)]
            return fmean(rates) * self._load.batch_size, loader.statistics().num_workers


def best(before: Sequence[float], after: Sequence[float]) -> tuple[float, int]:
    """Return (rate of the best number of threads, position of the smallest that is almost as fast).

    *before* and *after* are the rates of two sweeps. The number that is best in one sweep is judged
    by its rate in the other, because the highest of several noisy rates is, on average, too high.
    """
    positions = range(len(before))
    judged = [
        after[max(positions, key=before.__getitem__)],
        before[max(positions, key=after.__getitem__)],
    ]
    rate = fmean(judged)
    means = [fmean(pair) for pair in zip(before, after, strict=True)]
    enough = min(ENOUGH * rate, max(means))
    return rate, next(position for position, mean in enumerate(means) if mean >= enough)


def measure(name: str, paths: list[str], cpus: int) -> Result:
    """Measure the load called *name*, whose dataset reads the files *paths*, in this process."""
    import torch

    torch.set_num_threads(1)  # as in every trial of the benchmark
    # 64 threads on a few CPUs are wanted here.
    warnings.filterwarnings("ignore", "This DataLoader will create")
    loop = Loop(LOADS[name], paths, cpus)
    before = loop.sweep(NUMBERS)
    auto_rate, auto_threads = loop.auto()
    after = loop.sweep(NUMBERS[::-1])[::-1]
    best_rate, position = best(before, after)
    return Result(auto_rate, best_rate, auto_threads, NUMBERS[position])


def line(name: str, results: Sequence[Result]) -> str:
    """Return the table's line for a load, from its results of all rounds."""
    rates = ", ".join(f"{result.auto_rate / result.best_rate:.2f}" for result in results)
    threads = ", ".join(f"{result.auto_threads / result.fewest_threads:.3g}" for result in results)
    return f"| {LOADS[name].title} | {rates} | {threads} |"


def _silent(done: int, total: int) -> None:
    """Show no progress."""


def main() -> None:
    """Measure the loads that are named on the command line, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.autotune.measure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = f"what to measure: {', '.join(LOADS)} (default: all)"
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=names)
    parser.add_argument(
        "--rounds", type=whole(1, 100), default=1, metavar="N", help="trials a load"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the table there")
    options = parser.parse_args()
    if unknown := set(options.loads) - LOADS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; {names}")
    sources = Sources(None, lambda title: _silent, print)
    lines = ["| load | throughput over the best | threads over the fewest |", "|---|---|---|"]
    print(*lines, sep="\n", flush=True)
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as trials:
        for name in options.loads or LOADS:
            paths, _ = sources.get(LOADS[name].source)
            results = [
                trials.submit(measure, name, paths, cgroup.usable_cpus()).result()
                for _ in range(options.rounds)
            ]
            lines.append(line(name, results))
            print(lines[-1], flush=True)
            if options.out:
                options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
