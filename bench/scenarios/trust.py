"""Not a scenario of the suite but its test: samples whose work is known, for `python -m bench.trust`."""

from __future__ import annotations

from bench import epochs
from bench.chosen import Chosen, Comparison, Entry
from bench.scenario import Amount, Case, Scenario

LOOPS = 4000
LENGTH = 4096


class Work:
    """Sample i is the sum of so many numbers from i on, in pure Python: an int. Nothing is shared but constants."""

    def __init__(self, loops: int):
        self._loops = loops

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        total = 0
        for number in range(index, index + LOOPS):
            total += number
        # The difference is planted beside the sample, so that all give the same ones.
        for number in range(self._loops - LOOPS):
            number ^ index
        return total


def case(name: str, title: str, percent: float) -> Case:
    """A case that does so many percent more work."""
    return Case(name, title, {"loops": round(LOOPS * (1 + percent / 100))}, percent)


A, B = case("a", "A", 0), case("b", "A again", 0)


def contest(config: str, other: str, workers: tuple[int, ...]) -> Chosen:
    """Threads and processes under the case `other` against the same under A."""
    return Chosen(tuple(
        Comparison(*(Entry(config, variant, case=name, workers=count) for name in (other, A.name)))
        for variant in ("loader-thread", "loader-process") for count in workers))


def scenario(config: str, percent: float, workers: tuple[int, ...]) -> Scenario:
    """A against itself (0 percent), or against what does more work, in one configuration."""
    other = B if not percent else case("b", f"{percent:g}% more work", percent)
    return Scenario(
        name="trust",
        group="",
        description="samples of known work, the same in both places or with a difference planted",
        sample="the sum of 4000 numbers, added up in pure Python",
        sample_bytes=8,
        source="nothing",
        dataset=lambda task: Work(task.parameters["loops"]),
        measure=epochs.measure,
        metrics=("throughput",),
        contest=contest(config, other.name, workers),
        full=Amount(batch_size=64, batches_per_worker=48),
        quick=Amount(batch_size=64, batches_per_worker=12),
        seconds=2400,
        quick_seconds=300,
        question="Does the suite find the differences that are there, and none that are not?",
        cases=(A, other),
        case_axis="work",
        case_unit="percent more",
    )


# As a trial looks it up; what it has to do is in the parameters of its case.
SCENARIO = scenario("ft", 0, (1,))
