"""Does loading slow the training loop? Steps in plain Python, while a loader loads at some rate.

The loop is `measure`; in a program of your own, time your steps without what is spent in
``next(iterator)``, with and without a loader at work, and compare the distributions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from statistics import median, quantiles
from typing import Any

from ftbench.measure import checksums
from ftbench.measure.training_step import PythonStep, workers_beside
from ftbench.plan.contest import Comparison, Entry, grid
from ftbench.plan.contestants import CONFIGS
from ftbench.plan.scenario import DISTRIBUTION_LIMIT, Amount, Case, Task
from ftbench.scenarios.pillow import of_images
from ftrun import cgroup

# Steps for each batch per worker of the amount; a 99th percentile needs some hundreds.
STEPS_PER_BATCH = 20
WARM_UP_STEPS = 20


def measure(task: Task) -> dict:
    """Time the steps of a loop while the loader loads at a part of its full rate (the case's "rate", 0 to 1).

    First the loader alone: `task.batches` batches as fast as it gives them, which is its full rate. Then the
    steps alone, whose median says how many batches a step has to take. Then both: at rate 1 the loop takes
    batches at the full rate and waits for them if they are late, so that the loader always has something to
    do; at 1/2 half as often, and the loader waits for room in its queue meanwhile; at 0 it has nothing to do.

    A step's time is that of its Python code alone: what the loop spends in taking batches and waiting for
    them is not in it. Returns the metrics step_median_ms and step_p99_ms, the distributions `step` and
    `step-alone` (ms), `taking` (ms that taking a batch took, waiting included), and `rate` and `rate-alone`
    (batches/s, one value each).
    """
    from ftbench.measure.loaders import open_loader

    rate = task.parameters["rate"]
    steps = STEPS_PER_BATCH * (task.batches // task.workers)
    step = PythonStep()
    with open_loader(task, task.dataset(), persistent=True) as loader:
        first, found, last, period = _alone(loader, task)
        # The workers wait for the next epoch.
        _timed_steps(step, WARM_UP_STEPS)
        alone = _timed_steps(step, steps)
        taken: list[float] = []
        begin = time.perf_counter()
        if rate:
            # More than can be taken; the rest of the epoch is dropped.
            most = steps * (1 + math.ceil(median(alone) / period)) + task.prefetch_factor * task.workers + 1
            batches = loader.epoch(most * task.batch_size)
            next(batches)
            begin = time.perf_counter()
            times = _with_batches(step, steps, batches, period / rate, median(alone), taken)
        else:
            times = _timed_steps(step, steps)
        seconds = time.perf_counter() - begin
        batches = None
    distributions = {
        "step": {"unit": "ms", "values": [t * 1e3 for t in times]},
        "step-alone": {"unit": "ms", "values": [t * 1e3 for t in alone]},
        "rate-alone": {"unit": "batches/s", "values": [1 / period]},
        "rate": {"unit": "batches/s", "values": [len(taken) / seconds]},
    }
    if taken:
        # Many workers give more batches than are kept: every second, third, ... of them.
        every = math.ceil(len(taken) / DISTRIBUTION_LIMIT)
        distributions["taking"] = {"unit": "ms", "values": [t * 1e3 for t in taken[::every]]}
    return {
        "metrics": {
            "step_median_ms": median(times) * 1e3,
            "step_p99_ms": quantiles(times, n=100, method="inclusive")[98] * 1e3,
        },
        "distributions": distributions,
        "samples": task.batches * task.batch_size,
        "batches": len(found),
        "last_batch": last,
        "first_batch": first,
        "rows": found,
        "note": note(task.workers, cgroup.usable_cpus()),
    }


def note(workers: int, cpus: int) -> str:
    """What has to be said of so many workers, for every output."""
    if workers < cpus:
        return ""
    return f"{workers} workers and the loop share {cpus} CPU{'s' if cpus != 1 else ''}: it is slowed by that alone"


def _alone(loader: Any, task: Task) -> tuple[int, list[int], int, float]:
    """(checksum of the first batch, of parts of all, length of the last, seconds a batch) of an epoch."""
    found, first, batch, begin = [], 0, (), 0.0
    # The first batch has the workers' start in it, and comes with others behind it: it is not counted.
    for number, batch in enumerate(loader.epoch((task.batches + 1) * task.batch_size)):
        if number == 0:
            first = checksums.whole(batch)
            begin = time.perf_counter()
        else:
            found.append(checksums.part(batch))
    return first, found, len(batch), (time.perf_counter() - begin) / len(found)


def _timed_steps(step: PythonStep, steps: int) -> list[float]:
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


def _with_batches(
    step: PythonStep, steps: int, batches: Iterator, period: float, step_seconds: float, taken: list[float]
) -> list[float]:
    """Seconds of each step; between steps, batches are taken when they are due: one every `period` seconds."""
    # Where batches come faster than steps, several at once.
    at_once = max(1, math.ceil(step_seconds / period))
    times = []
    due = time.perf_counter()
    for _ in range(steps):
        now = time.perf_counter()
        if now >= due:
            for _ in range(at_once):
                begin = time.perf_counter()
                next(batches)
                taken.append(time.perf_counter() - begin)
            # A loop that had to wait does not make up for it.
            due = max(due + at_once * period, time.perf_counter())
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return times


IDLE = Case("idle", "loader idle", {"rate": 0.0}, 0.0)
HALF = Case("half", "half rate", {"rate": 0.5}, 0.5)
FULL = Case("full", "full rate", {"rate": 1.0}, 1.0)


ALWAYS = (("ft", "loader-thread"), ("gil", "loader-process"), ("ft-gil", "loader-thread"))


def _slowed(case: Case, config: str, variant: str) -> Comparison:
    """Loading at this rate against the same contestant not loading: what the scenario is about."""
    who = Entry(config, variant)
    # Idle stays as long as loading does in the grid.
    importance = 0 if (config, variant) in ALWAYS and case is FULL else 2 if config == "ft-gil" else 1
    return Comparison(
        replace(who, case=case.name),
        replace(who, case=IDLE.name),
        kind="interference",
        importance=importance,
        every_count=True,
        quick="ends" if (config, variant) in ALWAYS[:2] else "most",
    )


# Who the comparison of builds is about comes first.
SLOWED = tuple(
    _slowed(case, config, variant)
    for case in (FULL, HALF)
    for config, variant in dict.fromkeys(
        (*ALWAYS[:2], *((config, variant) for config in CONFIGS for variant in ("loader-thread", "loader-process")))
    )
)


CASES = (FULL, HALF, IDLE)

SCENARIO = of_images(
    name="interference",
    question="does loading slow the training loop?",
    description="steps of a Python-heavy loop in the main thread while JPEGs are loaded at a part of the full rate",
    measure=measure,
    metrics=("step_median_ms", "step_p99_ms"),
    contest=grid(CASES, first=SLOWED),
    cases=CASES,
    case_axis="loading rate",
    case_unit="of the full rate",
    full=Amount(batch_size=32, batches_per_worker=25),
    quick=Amount(batch_size=16, batches_per_worker=15),
    seconds=600,
    quick_seconds=270,
    workers=workers_beside,
)
