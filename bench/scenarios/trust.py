"""Not a scenario of the suite but its test: the main job with a known difference in it, for `python -m bench.trust`."""

from __future__ import annotations

from bench import epochs
from bench.chosen import Chosen, Comparison, Entry
from bench.scenario import Case, Scenario, Task
from bench.scenarios import pillow

VARIANTS = ("loader-thread", "loader-process")


class MoreWork(pillow.PillowDataset):
    """The images of the main job, so many percent of them decoded once more, evenly spread: the samples are the same.

    Immutable after construction, so threads may share it.
    """

    def __init__(self, paths: list[str], percent: int):
        super().__init__(paths)
        self._percent = percent

    def again(self, index: int) -> int:
        """How many times more sample `index` is decoded; of a hundred in a row, `percent` times in all."""
        return (index + 1) * self._percent // 100 - index * self._percent // 100

    def __getitem__(self, index: int):
        for _ in range(self.again(index)):
            super().__getitem__(index)
        return super().__getitem__(index)


def case(name: str, title: str, percent: int) -> Case:
    """A case that does so many percent more work."""
    return Case(name, title, {"percent": percent}, percent)


def dataset(task: Task) -> MoreWork:
    """The dataset of the task's case."""
    return MoreWork(task.paths, task.parameters["percent"])


def contest(config: str) -> Chosen:
    """Threads and processes: A again, and what does more work, each against A."""
    return Chosen(tuple(
        Comparison(*(Entry(config, variant, case=name) for name in (other, "a")))
        for other in ("b", "more") for variant in VARIANTS))


def scenario(config: str, percent: int) -> Scenario:
    """A against itself and against what does more work, in one configuration and the same rounds."""
    main = pillow.SCENARIO
    return Scenario(
        name="trust",
        group="",
        description="the main job in two places, and with a difference planted",
        sample=main.sample,
        sample_bytes=main.sample_bytes,
        source=main.source,
        dataset=dataset,
        measure=epochs.measure,
        metrics=main.metrics[:1],
        contest=contest(config),
        full=main.full,
        quick=main.quick,
        seconds=3600,
        quick_seconds=1800,
        question="Does the suite find the differences that are there, and none that are not?",
        cases=(case("a", "A", 0), case("b", "A again", 0), case("more", f"{percent}% more work", percent)),
        case_axis="work",
        case_unit="percent more",
    )


# As a trial looks it up; what it has to do is in the parameters of its case.
SCENARIO = scenario("ft", 10)
