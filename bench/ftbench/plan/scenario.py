"""What a scenario is: a kind of data loading work, how much of it, and who takes part.

Nothing here needs more than the standard library (Python 3.9): the controller has no torch, and
`./twins bench` checks its arguments before anything is built.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ftbench.plan.candidates import worker_counts
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import ComparisonPlan

# No trial takes so many seconds; one that does is stuck.
PATIENCE = 300.0

OWN = "dataset"
"""The name of the scenario that measures the user's own dataset."""


@dataclass(frozen=True)
class Scenario:
    """One kind of data loading work."""

    name: str
    description: str
    """One line for the head of a report: what is done."""
    sample: str
    """What one sample is, in a few words."""
    sample_bytes: int
    """Bytes of one sample in a batch."""
    dataset: Callable[[Task], Any]
    """Builds the map-style dataset of a trial."""
    measure: Callable[[Task], dict | Turns]
    """Runs in the trial's process: measure.epochs or its own.

    Gives its result at once, or in turns with other trials: "metrics" (by name, positive numbers, at least those
    of the scenario) and "samples" (how many were loaded). Where batches are loaded, also "batches", "last_batch"
    (its length), "first_batch" and "rows" (checksums, which are the same for all candidates of a case:
    ftbench.measure.checksums); where there are turns, "turn_seconds". It may add "distributions", {name: {"unit": ...,
    "values": [...]}} with at most DISTRIBUTION_LIMIT values each, which are kept (a curve says besides what it goes
    over: {"over": {"title": ..., "values": [...]}}), and "note", which then takes the place of the scenario's.
    """
    metrics: tuple[str, ...]
    """What it measures (ftbench.plan.metrics); the first is what it is about."""
    plan: ComparisonPlan
    full: Amount
    quick: Amount
    seconds: float
    """Its share of a run's time, and the time of a run of it alone; `quick_seconds` with --quick."""
    quick_seconds: float
    group: str = ""
    """The group that it is measured with, "" for none."""
    source: str = "nothing"
    """What its dataset reads, by its name in ftbench.data.sources; "nothing" for nothing."""
    question: str = ""
    """The question that it answers, for the list of scenarios and the head of a report."""
    case_axis: str = ""
    """What the cases differ in: "sample size"."""
    case_unit: str = ""
    """The unit of the cases' values: "bytes"."""
    unavailable: Callable[[], str | None] = lambda: None
    """Says, in the trial's process, why the scenario cannot run there, and what to do; None if it can."""
    note: str | Callable[[], str | None] = ""
    """What every output has to say of it ("CPU backend: no GPU here"); a function is asked in the trial's process."""
    workers: Callable[[int], Iterable[int]] = worker_counts
    """The numbers of workers for so many CPUs, where the user asks for none."""
    repeats: int = 0
    """The rounds that a full run takes at least; 0 leaves that to the controller."""
    picture: Callable[[Task], bytes] | None = None
    """Draws some samples as a PNG, in the process of a trial that is not counted; None for no picture.

    Kept in the run's directory as NAME-samples.png.
    """
    same_work: bool = True
    """Whether candidates that give different samples make the comparison void; else they are told of."""
    patience: float = PATIENCE
    """Seconds after which a trial that has not come to its next turn is taken to hang."""
    batched: bool = True
    """Whether it loads batches, so that --batch-size means something to it."""

    @property
    def takes_data(self) -> bool:
        """Whether it reads images, and so the user's own (--data)."""
        return "images" in (self.source, *(case.source for case in self.plan.cases))

    def amount(self, quick: bool, case: Case | None = None) -> Amount:
        """The amount of a full or a quick run."""
        of_case = case and (case.quick or case.full if quick else case.full)
        return of_case or (self.quick if quick else self.full)

    def share(self, quick: bool) -> float:
        return self.quick_seconds if quick else self.seconds

    def case(self, name: str) -> Case:
        """The case of this name; of a scenario without cases "" is the only one. Raises KeyError."""
        for case in self.plan.cases:
            if case.name == name:
                return case
        raise KeyError(f"{self.name} has no case {name!r}")


# A measurement in turns: it yields when it is ready, and again before each further turn, so that other trials
# may have theirs; what it returns is the result. Only one trial of a machine runs at a time.
Turns = Generator[None, None, dict]


class TrialError(Exception):
    """The trial cannot measure what it was asked to; raised in its process."""


# Enough for any percentile that is worth a word; more would make results.json large.
DISTRIBUTION_LIMIT = 2000


@dataclass(frozen=True)
class Task:
    """What one trial has to do."""

    scenario: Scenario
    paths: list[str]
    variant: str
    workers: int
    batch_size: int
    warmup_batches: int
    batches: int
    prefetch_factor: int
    case: str = ""
    """The name of the scenario's case, "" if it has none."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """The parameters of its case."""
    turns: int = 1
    """How many times `batches` are measured."""

    def dataset(self) -> Any:
        return self.scenario.dataset(self)
