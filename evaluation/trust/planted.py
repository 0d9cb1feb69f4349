"""The main job with a known difference in it: the scenario of ``python -m evaluation.trust.measure``."""

from __future__ import annotations

import dataclasses

from ftbench.measure import epochs
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import Comparison, ComparisonPlan, Side
from ftbench.plan.scenario import Scenario, Task, Turns
from ftbench.scenarios import pillow

# Twenty batches a worker, so that 5% more work is one more batch for each.
AMOUNT = Amount(batch_size=4, batches_per_worker=20, turns=8, seconds=180)
STEP = 5
"""Planted differences are multiples of this (percent)."""


def dataset(task: Task) -> pillow.PillowDataset:
    """Return the images of one batch, repeated: every batch is the same work, so n% more batches are n% more work."""
    return pillow.PillowDataset(task.paths[: task.batch_size])


def measure(task: Task) -> Turns:
    """Measure as ftbench.measure.epochs does, with some percent more batches, which are loaded and not counted."""
    wanted = task.batches
    loaded = wanted + wanted * task.parameters["percent"] // 100
    result = yield from epochs.measure(dataclasses.replace(task, batches=loaded))
    a_turn = len(result["rows"]) // task.turns
    rows = [row for place, row in enumerate(result["rows"]) if place % a_turn < wanted]
    return {
        **result,
        "metrics": {"throughput": result["metrics"]["throughput"] * wanted / loaded},
        "samples": wanted * task.turns * task.batch_size,
        "batches": wanted * task.turns,
        "rows": rows,
    }


def case(name: str, title: str, percent: int) -> Case:
    """Return a case with this many percent more work."""
    return Case(name, title, {"percent": percent}, percent)


def scenario(config: str, percent: int) -> Scenario:
    """Return the scenario: A against itself and against more work, in one configuration and the same rounds."""
    return dataclasses.replace(
        pillow.SCENARIO,
        name=f"{__name__}:SCENARIO",
        question="Does the suite find the differences that are there, and none that are not?",
        description="the main job in two places, and with a difference planted",
        dataset=dataset,
        measure=measure,
        metrics=("throughput",),
        # With threads and with processes: A again, and more work, each against A.
        plan=ComparisonPlan(
            tuple(
                Comparison(Side(config, variant, case=other), Side(config, variant, case="a"), importance=0)
                for other in ("b", "more")
                for variant in ("loader-thread", "loader-process")
            ),
            (case("a", "A", 0), case("b", "A again", 0), case("more", f"{percent}% more work", percent)),
        ),
        case_axis="work",
        case_unit="percent more",
        full=AMOUNT,
        quick=AMOUNT,
    )


# A trial finds it by name. The percentage is in the parameters of the case.
SCENARIO = scenario("ft", 10)
