"""The main job with a known difference in it: the scenario of ``python -m evaluation.trust.measure``."""

from __future__ import annotations

import dataclasses

from ftbench.measure import epochs
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import Comparison, ComparisonPlan, Side
from ftbench.plan.scenario import Scenario, Task, Turns
from ftbench.scenarios import pillow

# Twenty batches a worker, so that every 5% more work are a whole batch for each.
AMOUNT = Amount(batch_size=4, batches_per_worker=20, turns=8)
STEP = 5
"""What can be planted are multiples of so many percent."""


def dataset(task: Task) -> pillow.PillowDataset:
    """The images of one batch, again and again: every batch is the same work, so some percent more are just that."""
    return pillow.PillowDataset(task.paths[: task.batch_size])


def measure(task: Task) -> Turns:
    """As measure.epochs, of the task's batches and some percent more, loaded like all others and not counted."""
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
    """A case that does so many percent more work."""
    return Case(name, title, {"percent": percent}, percent)


def scenario(config: str, percent: int) -> Scenario:
    """A against itself and against what does more work, in one configuration and the same rounds."""
    return dataclasses.replace(
        pillow.SCENARIO,
        name=f"{__name__}:SCENARIO",
        question="Does the suite find the differences that are there, and none that are not?",
        description="the main job in two places, and with a difference planted",
        dataset=dataset,
        measure=measure,
        metrics=("throughput",),
        # Threads and processes: A again, and what does more work, each against A.
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
        seconds=180,
        quick_seconds=180,
    )


# As a trial looks it up; what it has to do is in the parameters of its case.
SCENARIO = scenario("ft", 10)
