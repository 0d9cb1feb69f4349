"""The slowdown of a training loop while a loader loads:
for steps in plain Python, and for steps in torch.

To measure your own program, time its steps once with a loader and once without.
Do not time ``next(iterator)``.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from statistics import fmean
from typing import Any

from ftbench.measure import checksums
from ftbench.measure.gpu import where_trained
from ftbench.measure.loaders import open_loader
from ftbench.measure.neighbours import TURN_SECONDS, alternate, condition_ratios
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import (
    EFFECT_OF_THE_GIL,
    FT,
    GIL,
    HEADLINE,
    IMPORTANCE,
    PROCESSES,
    THREADS,
    Comparison,
    ComparisonPlan,
    Side,
)
from ftbench.plan.scenario import Task, Turns
from ftbench.scenarios.overlap import TorchStep
from ftbench.scenarios.pillow import of_images

RECORDS = 400
# Units of a torch step: some milliseconds on a CPU.
TORCH_UNITS = 10
# Samples of an epoch that no run gets to the end of.
ENDLESS = 1 << 40


class PythonStep:
    """Step of some milliseconds in plain Python, as between a training loop's calls of torch. Used
    by one thread.

    The step makes records, running means, counters and log lines, as training code does. It never
    releases the GIL.
    """

    def __init__(self) -> None:
        self._recent: deque = deque(maxlen=1000)
        self._means, self._counts, self._number = dict[str, float](), dict[str, int](), 0

    def __call__(self, records: int = RECORDS) -> None:
        for _ in range(records):
            self._number += 1
            record: dict = {
                "step": self._number,
                "loss": 1 / self._number,
                "rate": 0.1 * 0.99 ** (self._number % 100),
            }
            self._recent.append(record)
            for name, value in record.items():
                mean = self._means.get(name, 0.0)
                self._means[name] = mean + 0.01 * (value - mean)
                self._counts[name] = self._counts.get(name, 0) + 1
            record["line"] = (
                f"step {record['step']} loss {record['loss']:.4f} rate {record['rate']:.5f}"
            )


def measure(task: Task, more: float = 1.0) -> Turns:
    """Compare a training loop's steps during loading with its steps while the loader is idle,
    within each turn.

    First the loader runs alone, for `task.batches` batches, to find its full rate. Each turn then
    times steps in Python under three conditions: the loader is idle, loads at half its full rate,
    or loads at its full rate. It times steps in torch with the loader idle and at full rate. At
    full rate, the loop waits for late batches. At half, the loader waits for room in its queue. The
    time of a step excludes the wait for batches. If the case's "shared" is true, the loop and the
    workers share as many CPUs as there are workers. During loading, a step does *more* times the
    work. evaluation/trust uses this to test whether the benchmark finds a difference of known size.

    Returns the metrics slowdown_python, slowdown_half and slowdown_torch.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if task.parameters["shared"]:
        os.sched_setaffinity(0, cpus[: task.workers])
    batch_sums = checksums.Seen()
    with open_loader(task, task.dataset(), persistent=True) as loader:
        period, last = _full_rate(task, loader, batch_sums)
        loop = TrainingLoop(loader.epoch(ENDLESS), period, task.prefetch_factor * task.workers)
        python, train = PythonStep(), TorchStep()
        some = torch_batch(train)
        steps: dict[str, Callable[[float], object]] = {
            "python": lambda work: python(round(RECORDS * work)),
            "torch": lambda work: train(some, round(TORCH_UNITS * work)),
        }
        work = {0: 1, 0.5: more, 1: more}
        conditions = {
            f"{name} {rate}": functools.partial(
                loop.turn, functools.partial(steps[name], work[rate]), rate
            )
            for name, rate in (
                ("python", 0),
                ("python", 0.5),
                ("python", 1),
                ("torch", 0),
                ("torch", 1),
            )
        }
        for condition in conditions.values():
            condition()  # warms caches
        seconds = yield from alternate(conditions, task.turns)
        loop.close()
    pairs = {
        "slowdown_python": (seconds["python 1"], seconds["python 0"]),
        "slowdown_half": (seconds["python 0.5"], seconds["python 0"]),
        "slowdown_torch": (seconds["torch 1"], seconds["torch 0"]),
    }
    return {
        **condition_ratios(pairs),
        "note": where_trained(train.device.type),
        **batch_sums.result(task.batches * task.batch_size, last),
        "batches": task.batches * task.turns,
    }


class TrainingLoop:
    """Training loop that takes batches at a chosen fraction of the loader's full rate.
    Used by one thread.
    """

    def __init__(self, batches: Iterator, period: float, queued: int) -> None:
        self._batches, self._period, self._queued = batches, period, queued

    def turn(self, step: Callable[[], object], rate: float) -> float:
        """Run steps for one turn, and return their mean time (s).

        *rate*: fraction of the loader's full rate at which the loop takes batches; with 0, the
        loader is idle.
        """
        if rate:
            # The turn starts with an empty queue, so that the workers have work from the start.
            for _ in range(self._queued):
                next(self._batches)
        else:
            # The workers fill the queue, and then wait.
            self.run(step, 3 * (self._queued + 1) * self._period)
        # Where loading is slow, a few batches more than the queued ones have to come.
        length = max(TURN_SECONDS, 3 * self._period)
        return fmean(self.run(step, length, self._period / rate if rate else math.inf))

    def run(
        self, step: Callable[[], object], seconds: float, period: float = math.inf
    ) -> list[float]:
        """Run steps for *seconds*, and take a batch every *period* seconds (never if infinite).

        Return the seconds of each step.
        """
        times = list[float]()
        start = now = time.perf_counter()
        due = start + period
        while now < start + seconds or not times:
            while due <= now and due < start + seconds:
                next(self._batches)
                due += period
            # A loop that had to wait does not catch up.
            begin = time.perf_counter()
            due = max(due, begin)
            step()
            now = time.perf_counter()
            times.append(now - begin)
        return times

    def close(self) -> None:
        """Drop the iterator over batches, so that the loader can end its epoch."""
        self._batches = iter(())


def torch_batch(train: TorchStep) -> Any:
    """Return a batch for the torch step, already on its device."""
    import torch

    return torch.zeros(128 * 128, dtype=torch.uint8, device=train.device)


def _full_rate(task: Task, loader: Any, seen: checksums.Seen) -> tuple[float, int]:
    """Time `task.batches` batches; return (seconds for a batch,
    number of samples in the last batch).
    """
    batches = loader.epoch((task.batches + 1) * task.batch_size)
    # The first batch is not counted: its time includes the start of the workers.
    seen.take_first(next(batches))
    begin = time.perf_counter()
    for batch in batches:
        seen.take(batch)
    return (time.perf_counter() - begin) / len(seen.rows), len(batch)


OWN = Case("own", "a CPU for the loop", {"shared": False})
SHARED = Case("shared", "loop and workers share CPUs", {"shared": True})


def _compared(a: Side, b: Side, kind: str, why: str, importance: int) -> Comparison:
    return Comparison(
        a, b, why=why, kind=kind, importance=importance, quick="most" if importance < 2 else ""
    )


SCENARIO = of_images(
    name="interference",
    question="does loading slow the training loop?",
    description="steps of a loop in the main thread, in Python and in torch, while JPEGs are "
    "loaded",
    measure=measure,
    metrics=("slowdown_python", "slowdown_torch", "slowdown_half"),
    plan=ComparisonPlan(
        (
            _compared(FT, GIL, "headline", HEADLINE.why, 0),
            _compared(THREADS["gil"], GIL, "method", "threads against processes, with the GIL", 1),
            _compared(
                FT, PROCESSES["ft"], "method", "threads against processes, without the GIL", 2
            ),
            _compared(FT, THREADS["ft-gil"], "gil", EFFECT_OF_THE_GIL.why, 2),
            _compared(
                THREADS["ft-gil"],
                PROCESSES["ft-gil"],
                "method",
                "threads against processes, GIL on",
                2,
            ),
        ),
        (OWN, SHARED),
        order=(IMPORTANCE,),  # a slow machine measures fewer candidates, in both cases
    ),
    case_axis="CPUs",
    full=Amount(batch_size=16, batches_per_worker=15, turns=8, seconds=900),
    quick=Amount(batch_size=16, batches_per_worker=15, turns=6, seconds=330),
    # One CPU is left to the training loop.
    workers=lambda cpus: [max(1, cpus - 1)],
    one_rank="it times the steps of one training loop",
    needs_workers="it loads while the loop's steps run",
)
