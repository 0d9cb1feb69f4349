"""What a scenario is: a kind of data loading work, how much of it, and who takes part.

Nothing here needs more than the standard library (Python 3.9): the controller has no torch, and
`./twins bench` checks its arguments before anything is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.contestants import Contest


@dataclass(frozen=True)
class Amount:
    """How much work makes one measurement."""

    batch_size: int
    batches_per_worker: int
    """Length of what is measured; every worker builds as many, whatever their number."""


@dataclass(frozen=True)
class Scenario:
    """One kind of data loading work."""

    name: str
    group: str
    """The group that it is measured with, "" for none."""
    description: str
    """One line for the list of scenarios and the head of a report."""
    sample: str
    """What one sample is, in a few words."""
    sample_bytes: int
    """Bytes of one sample in a batch."""
    source: str
    """What its dataset reads (bench.sources): "images", "arrays" or "nothing"."""
    dataset: Callable[[list[str], str], object]
    """Builds the map-style dataset of a trial from the paths of its source and the variant's name."""
    measure: Callable[[Task], dict]
    """Runs in the trial's process: bench.epochs, bench.startup or bench.memory."""
    metrics: tuple[str, ...]
    """What it measures (bench.metrics); the first is what it is about."""
    contest: Contest
    full: Amount
    quick: Amount
    seconds: float
    """Its share of a run's time, and the time of a run of it alone; `quick_seconds` with --quick."""
    quick_seconds: float

    def amount(self, quick: bool) -> Amount:
        """The amount of a full or a quick run."""
        return self.quick if quick else self.full

    def share(self, quick: bool) -> float:
        """The seconds of a full or a quick run."""
        return self.quick_seconds if quick else self.seconds


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

    def dataset(self) -> object:
        """The dataset of the trial."""
        return self.scenario.dataset(self.paths, self.variant)
