"""The slowdown of a training loop in plain Python while a loader loads at a given rate.

To measure your own program, time its steps once with a loader and once without. Do not time ``next(iterator)``.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from statistics import median, quantiles
from typing import Any

from ftbench.measure import checksums
from ftbench.measure.loaders import open_loader
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import FT, GIL, OURS, THREADS, Comparison, Side, grid
from ftbench.plan.scenario import DISTRIBUTION_LIMIT, Task
from ftbench.scenarios.pillow import of_images
from ftrun import cgroup

# Steps for each batch per worker of the amount; a 99th percentile needs some hundreds.
STEPS_PER_BATCH = 20
WARM_UP_STEPS = 20
RECORDS = 400


class PythonStep:
    """Step of some milliseconds in plain Python, as between a training loop's calls of torch. Used by one thread.

    The step makes records, running means, counters and log lines, as training code does. It never releases the GIL.
    """

    def __init__(self) -> None:
        self._recent: deque = deque(maxlen=1000)
        self._means, self._counts, self._number = dict[str, float](), dict[str, int](), 0

    def __call__(self) -> None:
        for _ in range(RECORDS):
            self._number += 1
            record: dict = {"step": self._number, "loss": 1 / self._number, "rate": 0.1 * 0.99 ** (self._number % 100)}
            self._recent.append(record)
            for name, value in record.items():
                mean = self._means.get(name, 0.0)
                self._means[name] = mean + 0.01 * (value - mean)
                self._counts[name] = self._counts.get(name, 0) + 1
            record["line"] = f"step {record['step']} loss {record['loss']:.4f} rate {record['rate']:.5f}"


def measure(task: Task) -> dict:
    """Time the steps of a loop while the loader loads at a part of its full rate (the case's "rate", 0 to 1).

    First the loader runs alone, for `task.batches` batches, to find its full rate. Then the steps run alone, to find
    the number of batches per step. Then both run together. At rate 1 the loop waits for late batches; at 1/2 the loader
    waits for room in its queue; at 0 the loader is idle. The time of a step excludes the wait for batches.

    Returns the metrics step_median_ms and step_p99_ms, and the distributions `step` and `step-alone` (ms), `taking` (ms
    to take a batch, waiting included), `rate` and `rate-alone` (batches/s, one value each).
    """
    rate = task.parameters["rate"]
    steps = STEPS_PER_BATCH * (task.batches // task.workers)
    step, seen = PythonStep(), checksums.Seen()
    with open_loader(task, task.dataset(), persistent=True) as loader:
        period, last = _full_rate(task, loader, seen)
        # The workers wait for the next epoch.
        _timed_steps(step, WARM_UP_STEPS)
        alone = _timed_steps(step, steps)
        taken: list[float] = []
        # More batches than can be taken; the rest of the epoch is dropped.
        most = steps * (1 + math.ceil(median(alone) / period)) + task.prefetch_factor * task.workers + 1
        batches = loader.epoch(most * task.batch_size) if rate else iter(())
        next(batches, None)
        begin = time.perf_counter()
        times = _with_batches(step, steps, batches, period / rate if rate else math.inf, median(alone), taken)
        seconds = time.perf_counter() - begin
        del batches
    # Many workers give more values than are kept: keep every n-th.
    some = taken[:: math.ceil(len(taken) / DISTRIBUTION_LIMIT) or 1]
    rates = {"rate-alone": 1 / period, "rate": len(taken) / seconds}
    return {
        "metrics": {
            "step_median_ms": median(times) * 1e3,
            "step_p99_ms": quantiles(times, n=100, method="inclusive")[98] * 1e3,
        },
        "distributions": {
            **{
                name: {"unit": "ms", "values": [t * 1e3 for t in values]}
                for name, values in (("step", times), ("step-alone", alone), ("taking", some))
                if values
            },
            **{name: {"unit": "batches/s", "values": [value]} for name, value in rates.items()},
        },
        "note": note(task.workers, cgroup.usable_cpus()),
        **seen.result(task.batches * task.batch_size, last),
    }


def _full_rate(task: Task, loader: Any, seen: checksums.Seen) -> tuple[float, int]:
    """Time `task.batches` batches; return (seconds for a batch, number of samples in the last batch)."""
    batches = loader.epoch((task.batches + 1) * task.batch_size)
    # The first batch is not counted: its time includes the start of the workers.
    seen.take_first(next(batches))
    begin = time.perf_counter()
    for batch in batches:
        seen.take(batch)
    return (time.perf_counter() - begin) / len(seen.rows), len(batch)


def note(workers: int, cpus: int) -> str:
    if workers < cpus:
        return ""
    return f"{workers} workers and the loop share {cpus} CPU{'s' if cpus != 1 else ''}: it is slowed by that alone"


def _timed_steps(step: PythonStep, steps: int) -> list[float]:
    return _with_batches(step, steps, iter(()), math.inf, 0.0, [])


def _with_batches(
    step: PythonStep, steps: int, batches: Iterator, period: float, step_seconds: float, taken: list[float]
) -> list[float]:
    """Run the steps; return the seconds of each. In between, get a batch every `period` seconds (never if infinite)."""
    # If batches come faster than steps, take several at once.
    at_once = max(1, math.ceil(step_seconds / period))
    times = []
    due = time.perf_counter() if period < math.inf else math.inf
    for _ in range(steps):
        if time.perf_counter() >= due:
            for _ in range(at_once):
                begin = time.perf_counter()
                next(batches)
                taken.append(time.perf_counter() - begin)
            # A loop that had to wait does not catch up.
            due = max(due + at_once * period, time.perf_counter())
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


FULL = Case("full", "full rate", {"rate": 1.0}, 1.0)
HALF = Case("half", "half rate", {"rate": 0.5}, 0.5)
IDLE = Case("idle", "loader idle", {"rate": 0.0}, 0.0)
CASES = (FULL, HALF, IDLE)


def _slowed(side: Side, case: Case) -> Comparison:
    """Return the comparison of a candidate in this case with the same candidate in the idle case, whose rate is 0."""
    # The idle candidate is dropped together with the loading candidate of the grid.
    always = side in (FT, GIL, THREADS["ft-gil"]) and case is FULL
    importance = 0 if always else 2 if side.config == "ft-gil" else 1
    made = Comparison(replace(side, case=case.name), replace(side, case=IDLE.name), kind="interference")
    quick = "ends" if side in (FT, GIL) else "most"
    return replace(made, importance=importance, every_count=True, quick=quick)


SCENARIO = of_images(
    name="interference",
    question="does loading slow the training loop?",
    description="steps of a Python-heavy loop in the main thread while JPEGs are loaded at a part of the full rate",
    measure=measure,
    metrics=("step_median_ms", "step_p99_ms"),
    # FT and GIL, the candidates of the headline, come first.
    plan=grid(
        CASES, first=tuple(_slowed(side, case) for case in (FULL, HALF) for side in dict.fromkeys((FT, GIL, *OURS)))
    ),
    case_axis="loading rate",
    case_unit="of the full rate",
    full=Amount(batch_size=32, batches_per_worker=25, seconds=600),
    quick=Amount(batch_size=16, batches_per_worker=15, seconds=270),
    # One CPU is left to the training loop.
    workers=lambda cpus: [max(1, cpus - 1)],
)
