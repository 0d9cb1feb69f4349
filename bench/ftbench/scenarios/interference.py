"""Does loading slow the training loop? Steps in plain Python, while a loader loads at some rate.

The loop is `ftbench.interference.measure`; in a program of your own, time your steps without what is spent in
``next(iterator)``, with and without a loader at work, and compare the distributions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ftbench import interference
from ftbench.contestants import Contestant, Pair, plural
from ftbench.grid import Grid
from ftbench.scenario import Amount, Case, Scenario, Task
from ftbench.scenarios.pillow import HEIGHT, WIDTH, PillowDataset
from ftbench.training_step import workers_beside

IDLE = Case("idle", "loader idle", {"rate": 0.0}, 0.0)
HALF = Case("half", "half rate", {"rate": 0.5}, 0.5)
FULL = Case("full", "full rate", {"rate": 1.0}, 1.0)


@dataclass(frozen=True)
class Rates(Grid):
    """The grid, and each contestant loading against itself not loading: what the scenario is about."""

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
        """As Grid.candidates; with the loader idle, those that always stay do so as they do at the full rate.

        The most important come first, since the first of each twin is warmed up and tells how long trials take:
        threads that make the steps wait for the GIL take twice as long as most.
        """
        ranked = super().candidates(configs, workers, quick)
        always = {(c.config, c.variant, c.workers) for rank, c in ranked if rank == 0}
        return sorted(
            (
                (0 if c.case == IDLE.name and (c.config, c.variant, c.workers) in always else rank, c)
                for rank, c in ranked
            ),
            key=lambda each: each[0],
        )

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """As Grid.pairs, with those of a rate against idle, the full rate first."""
        # Who the comparison of builds is about comes first.
        first = [("ft", self.threads), ("gil", self.processes), ("gil", self.threads)]
        contestants = sorted(
            contestants,
            key=lambda c: (
                -c.workers,
                first.index((c.config, c.variant)) if (c.config, c.variant) in first else len(first),
            ),
        )
        keys = {c.key for c in contestants}
        slowed = []
        for case in (FULL, HALF):
            for c in contestants:
                idle = Contestant(c.config, c.variant, c.workers, case=IDLE.name).key
                if c.case == case.name and idle in keys:
                    slowed.append(
                        Pair(
                            "interference",
                            f"{c.config} {plural(c.variant)} x{c.workers}: "
                            f"steps at {case.title} / with the loader idle",
                            c.key,
                            idle,
                        )
                    )
        return slowed + super().pairs(contestants)


def dataset(task: Task) -> PillowDataset:
    """The images of `pillow`."""
    return PillowDataset(task.paths)


CASES = (FULL, HALF, IDLE)

SCENARIO = Scenario(
    name="interference",
    group="",
    question="does loading slow the training loop?",
    description="steps of a Python-heavy loop in the main thread while JPEGs are loaded at a part of the full rate",
    sample="one 640x408 JPEG decoded to RGB uint8",
    sample_bytes=HEIGHT * WIDTH * 3,
    source="images",
    dataset=dataset,
    measure=interference.measure,
    metrics=("step_median_ms", "step_p99_ms"),
    contest=Rates(CASES),
    cases=CASES,
    case_axis="loading rate",
    case_unit="of the full rate",
    full=Amount(batch_size=32, batches_per_worker=25),
    quick=Amount(batch_size=16, batches_per_worker=15),
    seconds=600,
    quick_seconds=270,
    workers=workers_beside,
)
