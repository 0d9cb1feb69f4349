"""The description of a scenario: a kind of data loading work, its amount, and the candidates.

This module needs only the standard library (Python 3.9): the controller has no torch, and `./twins
bench` checks its arguments before anything is built.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ftbench.plan.candidates import worker_counts
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import ComparisonPlan

PATIENCE = 300.0
"""Default limit in seconds for the time between turns, after which a trial counts as hung."""
OWN = "dataset"
"""Name of the scenario that measures the user's dataset."""
COMMAND = "command"
"""Name of the scenario that runs the user's command."""
DISTRIBUTION_LIMIT = 2000
"""Enough values for any curve; more would make results.json large."""


@dataclass(frozen=True)
class Scenario:
    """One kind of data loading work, or the user's command. Its functions are called in a trial's
    process, except `workers`.
    """

    name: str
    description: str
    """One line for the head of a report."""
    sample_bytes: int
    """Bytes of one sample in a batch."""
    metrics: tuple[str, ...]
    """Names of the scenario's metrics (ftbench.plan.metrics), the main one first."""
    plan: ComparisonPlan
    full: Amount
    quick: Amount
    dataset: Callable[[Task], Any] = lambda task: None
    """Function that builds the map-style dataset of a trial. The default builds none."""
    measure: Callable[[Task], dict | Turns] | None = None
    """Function that measures: ftbench.measure.epochs.measure or the scenario's own; None for a
    command, which ftbench.trial.command runs.

    It returns the result, or is a generator that returns the result (Turns).
    The result has these items:

    - "metrics": positive numbers by name, at least those of the scenario;
    - "samples": the number of samples loaded;
    - where batches are loaded, "batches", "last_batch" (number of samples in it), and the checksums
      "first_batch" and "rows", which are the same for all candidates of a case
      (ftbench.measure.checksums);
    - "asked", the number of batches that the loader was asked for, if it is not `batches` of the
      task times its turns;
    - where there are turns, "turn_seconds"; or "condition_seconds", for metrics that compare two
      conditions of neighbouring turns (ftbench.measure.neighbours.condition_ratios);
    - optionally "distributions", curves over the course of the trial: {name: {"unit": ...,
      "values": [...], "over": {"title": ..., "values": [...]}}}, with at most DISTRIBUTION_LIMIT
          values each. "over" is the abscissa;
    - optionally "note", instead of the scenario's.

    Or the result has only "unavailable", the reason why the scenario cannot run here.
    """
    group: str = ""
    """Group that the scenario belongs to, "" for none."""
    source: str = "nothing"
    """Name of the files that the dataset reads: "nothing",
    or a key of ftbench.data.sources.GENERATED.
    """
    question: str = ""
    """Question that the scenario answers, for the list of scenarios and the head of a report."""
    case_axis: str = ""
    """The difference between the cases: "sample size"."""
    case_unit: str = ""
    """Unit of the cases' values: "bytes"."""
    unavailable: Callable[[], str | None] = lambda: None
    """Function that returns the reason why the scenario cannot run and what to do;
    None if it can run.
    """
    note: str | Callable[[], str | None] = ""
    """Note for every report ("CPU backend: no GPU here"), or a function that returns it."""
    workers: Callable[[int], Iterable[int]] = worker_counts
    """Function from the number of CPUs to the default numbers of workers."""
    quick_workers: int | None = None
    """The highest default number of workers in a quick run;
    None if it is the same as in a full run.
    """
    repeats: int = 0
    """Least number of rounds of a full run; 0 for the controller's default."""
    same_work: bool = True
    """True if different samples from two candidates stop the scenario,
    False if they only cause a warning.
    """
    difference: str = (
        "gave different samples. If the files did not change, this is a defect in a decoder or "
        "loader: please report it with both twins' descriptions (./twins info --json)"
    )
    """What is said of two candidates that did different work, after their titles."""
    patience: float = PATIENCE
    """Limit in seconds for the time between turns. A trial that needs longer counts as hung."""
    inside: bool = False
    """True if one trial measures all the scenario's cases, in neighbouring turns; False if each
    case has its trials.
    """
    batched: bool = True
    """True if the scenario loads batches, so that --batch-size applies."""
    one_rank: str = ""
    """Reason why several ranks (--ranks) cannot measure this scenario; "" if they can."""
    needs_workers: str = ""
    """Reason why it cannot be measured without workers (--workers 0); "" if it can."""

    @property
    def takes_data(self) -> bool:
        """True if the scenario reads images, which --data can replace with the user's."""
        return "images" in (self.source, *(case.source for case in self.plan.cases))

    def amount(self, quick: bool, case: Case | None = None) -> Amount:
        """Return a trial's amount of work in a full or quick run:
        the case's amount if set, else the scenario's.
        """
        if case and (amount := case.amount(quick)):
            return amount
        return self.quick if quick else self.full

    def share(self, quick: bool) -> float:
        return self.amount(quick).seconds

    def case(self, name: str) -> Case:
        """Return the case called *name* ("" in a scenario without cases); raises KeyError."""
        return {case.name: case for case in self.plan.cases}[name]


Turns = Generator[None, None, dict]
"""Generator that measures in turns. It yields before each turn, to let other trials measure, and
returns the result.
"""


class TrialError(Exception):
    """Raised in a trial's process if the requested measurement is impossible;
    the message says why.
    """


@dataclass(frozen=True)
class Task:
    """The work of one trial."""

    scenario: Scenario
    paths: list[str]
    variant: str
    workers: int
    batch_size: int
    warmup_batches: int
    batches: int
    """Number of batches in a turn."""
    prefetch_factor: int
    case: str = ""
    """Name of the scenario's case, "" if it has none."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the case."""
    turns: int = 1
    config: str = ""
    """Configuration that the trial runs in."""
    others: Sequence[Mapping[str, Any]] = ()
    """Requests of the other cases that the trial's process measures (Scenario.inside)."""
    ranks: int = 1
    """Number of processes that measure, each with its own loader
    of `workers` workers (ftbench.measure.ranks).
    """

    def dataset(self) -> Any:
        return self.scenario.dataset(self)

    def request(self) -> dict:
        """Return the task as a JSON object for a trial's process, with the scenario's name in place
        of the scenario.
        """
        patience = self.scenario.patience
        return {
            **vars(self),
            "scenario": self.scenario.name,
            "parameters": dict(self.parameters),
            "patience": patience,
        }

    @classmethod
    def of(cls, scenario: Scenario, request: Mapping[str, Any]) -> Task:
        """Return the task for a request that Task.request made;
        `scenario` is the scenario that the request names.
        """
        values = {field_.name: request[field_.name] for field_ in fields(cls)}
        return cls(**{**values, "scenario": scenario})
