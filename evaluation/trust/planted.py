"""Scenarios with a known difference in them, for ``python -m evaluation.trust.measure``.

Each is a scenario of the benchmark in one case, measured three times in the same rounds: A, A
again, and A with more work. Where the scenario measures its cases inside a process
(Scenario.inside), the three are neighbouring turns of one process; elsewhere, each has processes of
its own. `varied` gives A again and A with more work turns that vary.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evaluation.trust.variation import PATTERNS
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import Comparison, ComparisonPlan, Side
from ftbench.plan.scenario import Scenario, Task, Turns
from ftbench.scenarios import SCENARIOS, interference, overlap, pillow

STEP = 5
"""Planted differences are multiples of this (percent)."""
PREFIX = "planted-"
VARIED = "-varied-"
# Metrics that are the same work in less or more time.
RATES = ("throughput", "gb_per_s")
# The number of times that a sample is loaded, on average over all turns,
# where the turns of a candidate vary.
TIMES = 1.3
# Of the multiples of this, the fractional parts fill the interval from 0 to 1 evenly.
GOLDEN = 0.618034


def _more_batches(task: Task, base: Scenario, percent: int) -> Turns:
    """Measure as *base* does, with *percent* more batches, which are loaded and not counted."""
    wanted = task.batches
    loaded = wanted + wanted * percent // 100
    result = yield from base.measure(dataclasses.replace(task, batches=loaded))  # type: ignore[misc]
    # A slow candidate's turns end before all batches are timed.
    counted = result["batches"] // task.turns * wanted // loaded
    a_turn = len(result["rows"]) // task.turns
    rows = [row for place, row in enumerate(result["rows"]) if place % a_turn < counted]
    metrics = result["metrics"]
    return {
        **result,
        "metrics": metrics
        | {name: metrics[name] * wanted / loaded for name in RATES if name in metrics},
        "samples": counted * task.turns * task.batch_size,
        "batches": counted * task.turns,
        "asked": counted * task.turns,
        "rows": rows,
    }


class Repeated:
    """Dataset that loads some samples more than once. `times`,
    the mean number of times, is set between turns.
    """

    def __init__(self, dataset: Any):
        self._dataset, self.times = dataset, TIMES

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> Any:
        for _ in range(int(self.times - 1 + index * GOLDEN % 1)):
            self._dataset[index]
        return self._dataset[index]


def varied(pattern: str) -> Planting:
    """Return the place in JPEG decoding where turns vary by *pattern*, a key of variation.PATTERNS.

    A is steady. The other two vary, and load as much as A in the long run, and more.
    """
    place = PLACES["pillow"]

    def measure(task: Task, base: Scenario, more: int) -> Turns:
        repeated: list[Repeated] = []

        def dataset(of: Task) -> Repeated:
            repeated.append(Repeated(task.scenario.dataset(of)))
            return repeated[0]

        scenario = dataclasses.replace(base, dataset=dataset)
        turns = _more_batches(dataclasses.replace(task, scenario=scenario), base, more)
        steady = task.parameters["steady"]
        for work in PATTERNS["steady" if steady else pattern](random.Random(), task.turns):
            try:
                next(turns)  # up to the next turn
            except StopIteration as end:
                return end.value
            repeated[0].times = TIMES * work
            yield
        return (yield from turns)

    return dataclasses.replace(place, measure=measure, pattern=pattern)


def _longer_steps(
    measure: Callable[[Task, float], Turns],
) -> Callable[[Task, Scenario, int], Turns]:
    """Return a function that measures with *percent* more work
    in each step of the loop while the loader loads.
    """
    return lambda task, base, percent: measure(task, 1 + percent / 100)


@dataclass(frozen=True)
class Planting:
    """A place for a planted difference: a scenario, its case, and the way to do more work in it."""

    base: Scenario
    case: str
    amount: Amount
    """The work of a turn. Batches per worker: a multiple of 10, so that 10% more work is a whole
    number of batches.
    """
    measure: Callable[[Task, Scenario, int], Turns] = _more_batches
    workers: int | None = None
    """Number of workers, None for the scenario's own."""
    pattern: str = ""
    """How the turns of the other two vary (`varied`); "" if not.
    Then threads alone are measured.
    """

    def scenario(self, config: str, percent: int) -> Scenario:
        """Return the scenario: A against itself and against *percent* more work,
        in one configuration.
        """
        base, like = self.base, self.base.case(self.case)

        def dataset(task: Task) -> Any:
            # The images of one batch, repeated: every batch is then the same work.
            paths = task.paths[: task.batch_size] if base.source == "images" else task.paths
            return base.dataset(dataclasses.replace(task, paths=paths))

        def measure(task: Task) -> Turns:
            of = dataclasses.replace(
                task, scenario=dataclasses.replace(base, dataset=dataset), case=self.case
            )
            return self.measure(of, base, task.parameters["percent"])

        def case(name: str, title: str, more: int) -> Case:
            parameters = {**like.parameters, "percent": more, "steady": name == "a"}
            amounts = {"full": self.amount, "quick": self.amount}
            return dataclasses.replace(
                like, name=name, title=title, parameters=parameters, value=more, **amounts
            )

        methods = ("thread",) if self.pattern else ("thread", "process")
        sides = [Side(config, f"loader-{workers}") for workers in methods]
        return dataclasses.replace(
            base,
            name=f"{__name__}:{PREFIX}{base.name}{VARIED if self.pattern else ''}{self.pattern}",
            question="Does the suite find the differences that are there, and none that are not?",
            description=f"{base.name} in two places, and with a difference planted",
            measure=measure,
            metrics=base.metrics[:1],
            # With threads and with processes: A again, and more work, each against A.
            plan=ComparisonPlan(
                tuple(
                    Comparison(
                        dataclasses.replace(side, case=other),
                        dataclasses.replace(side, case="a"),
                        importance=0,
                    )
                    for other in ("b", "more")
                    for side in sides
                ),
                (
                    case("a", "A", 0),
                    case("b", "A again", 0),
                    case("more", f"{percent}% more work", percent),
                ),
            ),
            case_axis="work",
            case_unit="percent more",
            full=self.amount,
            quick=self.amount,
            workers=(lambda cpus: [self.workers]) if self.workers else base.workers,
        )


PLACES = {
    planting.base.name: planting
    for planting in (
        Planting(pillow.SCENARIO, "", Amount(4, 20, turns=8, seconds=180)),
        # A turn is as long as in a quick run, which has 300 s for four processes of two cases;
        # these are two, of three.
        Planting(SCENARIOS["augment"], "heavy", Amount(3, 10, turns=6, seconds=210)),
        Planting(SCENARIOS["raw-size"], "4-MiB", Amount(4, 10, turns=6, seconds=120)),
        Planting(SCENARIOS["raw-transfer"], "numpy-pickled", Amount(4, 10, turns=6, seconds=120)),
        Planting(
            SCENARIOS["latency-requests"], "50-ms", Amount(1, 10, turns=4, seconds=180), workers=8
        ),
        Planting(
            interference.SCENARIO,
            "own",
            interference.SCENARIO.quick,
            _longer_steps(interference.measure),
        ),
        # A step as long as the training: more training is as much more of a step.
        Planting(
            overlap.SCENARIO,
            "2",
            Amount(8, 4, turns=6, seconds=240),
            _longer_steps(overlap.measure),
        ),
    )
}
"""The places by name. The seconds are those of a quick run of the scenario; in pillow, of one with
one candidate more. Those of augment give it as many turns as a quick run has."""


def __getattr__(name: str) -> Scenario:
    """Return a planted scenario, as trials look it up; their requests have the percentage."""
    scenario, _, pattern = name.removeprefix(PREFIX).partition(VARIED)
    place = varied(pattern) if pattern in PATTERNS else PLACES.get(scenario)
    if place is None:
        raise AttributeError(name)
    return place.scenario("ft", STEP)
