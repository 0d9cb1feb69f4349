"""Is a step max(load, train), not their sum? Loading and training together, against each of them alone.

The loop is that of every training, ``for batch in loader: train(batch)``; `measure` times it beside
its two bounds.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from ftbench.measure import checksums
from ftbench.measure.training_step import TorchStep, workers_beside
from ftbench.plan.contest import Comparison, Entry, grid
from ftbench.plan.scenario import Amount, Case, Task
from ftbench.scenarios.pillow import of_images
from ftrun import cgroup

# Loading alone, training alone and both take turns, so that all see the same machine.
REPETITIONS = 3
CALIBRATION_UNITS = 20


def measure(task: Task) -> dict:
    """Time a step of training with its batch, and its two parts alone, over `task.batches` steps each.

    The training is given as much work as takes the case's "ratio" times as long as loading one batch, as
    found in an epoch of loading alone. A loader that works while the loop trains makes a step as long as the
    longer of the two, max(load, train); one that does not, as their sum. Each part begins with a batch in hand
    and nothing else ready, and the epoch is longer than what is timed, so that no batch is given for free and
    loading goes on to the end.

    Returns the metrics step_over_max (1 where loading and training overlap perfectly) and step_over_sum (1
    where they do not at all), and the distributions `step`, `load` and `train`: ms of each repetition's mean step.
    """
    from ftbench.measure.loaders import open_loader

    train = TorchStep()
    steps = task.batches
    with open_loader(task, task.dataset(), persistent=True) as loader:
        found, first, batch = [], 0, ()
        for number, batch in enumerate(loader.epoch(steps * task.batch_size)):
            if number == 0:
                first = checksums.whole(batch)
            found.append(checksums.part(batch))
        last = len(batch)
        epoch = (1 + steps + task.prefetch_factor * task.workers) * task.batch_size
        load = [_mean_step(loader, epoch, steps)]
        train(batch, CALIBRATION_UNITS)  # the first one takes longer
        begin = time.perf_counter()
        train(batch, CALIBRATION_UNITS)
        unit = (time.perf_counter() - begin) / CALIBRATION_UNITS
        units = max(1, round(task.parameters["ratio"] * load[0] / unit))

        load, alone, both = [], [], []
        for _ in range(REPETITIONS):
            load.append(_mean_step(loader, epoch, steps))
            begin = time.perf_counter()
            for _ in range(steps):
                train(batch, units)
            alone.append((time.perf_counter() - begin) / steps)
            both.append(_mean_step(loader, epoch, steps, train, units))
    at_least = [max(a, b) for a, b in zip(load, alone, strict=True)]
    at_most = [a + b for a, b in zip(load, alone, strict=True)]
    return {
        "metrics": {
            "step_over_max": median([a / b for a, b in zip(both, at_least, strict=True)]),
            "step_over_sum": median([a / b for a, b in zip(both, at_most, strict=True)]),
        },
        "distributions": {
            name: {"unit": "ms", "values": [t * 1e3 for t in times]}
            for name, times in (("step", both), ("load", load), ("train", alone))
        },
        "samples": steps * task.batch_size,
        "batches": len(found),
        "last_batch": last,
        "first_batch": first,
        "rows": found,
        "note": note(train.device.type, task.workers, cgroup.usable_cpus()),
    }


def note(device: str, workers: int, cpus: int) -> str:
    """Where the training ran, for every output."""
    if device == "cuda":
        return "trained on the GPU"
    return "trained on one CPU core: no GPU here" + (
        f", and {workers} workers share {cpus} CPU{'s' if cpus != 1 else ''} with it" if workers >= cpus else ""
    )


def _mean_step(loader: Any, samples: int, steps: int, train: TorchStep | None = None, units: int = 0) -> float:
    """Seconds a step from the first batch on, each step training and then waiting for the next batch."""
    batches = loader.epoch(samples)
    batch = next(batches)
    begin = time.perf_counter()
    for _ in range(steps):
        if train is not None:
            train(batch, units)
        batch = next(batches)
    seconds = time.perf_counter() - begin
    # To its end: workers that went on would disturb what is measured next.
    for _ in batches:
        pass
    return seconds / steps


EQUAL = Case("1", "training as long as loading", {"ratio": 1.0}, 1.0)
LESS = Case("0.5", "training half as long as loading", {"ratio": 0.5}, 0.5)
MORE = Case("2", "training twice as long as loading", {"ratio": 2.0}, 2.0)
CASES = (EQUAL, LESS, MORE)


# Loading without workers beside it, where a step has to be the sum.
SERIAL = tuple(
    Comparison(Entry(config, "serial", 1, case.name), importance=importance, quick=quick)
    for case, importance, quick in ((EQUAL, 0, "most"), (LESS, 9, ""), (MORE, 9, ""))
    for config in ("gil", "ft")
)


SCENARIO = of_images(
    name="overlap",
    question="is a step max(load, train), not their sum?",
    description="a training loop over JPEGs, against loading alone and training alone in the same trial",
    measure=measure,
    metrics=("step_over_max", "step_over_sum"),
    contest=grid(CASES, more=SERIAL),
    cases=CASES,
    case_axis="time of training / of loading",
    full=Amount(batch_size=32, batches_per_worker=10),
    quick=Amount(batch_size=32, batches_per_worker=4),
    seconds=600,
    quick_seconds=460,
    workers=workers_beside,
)
