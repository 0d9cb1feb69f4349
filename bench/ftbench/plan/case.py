"""The cases of a scenario, such as sample sizes, and the amount of work in one measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Amount:
    """Amount of work in one measurement, and the scenario's share of a run's time."""

    batch_size: int
    batches_per_worker: int
    """Batches that each worker builds in the timed part of a turn, for any number of workers."""
    turns: int = 1
    """Number of times that a trial measures these batches,
    alternating with other trials (ftbench.measure.epochs).
    """
    seconds: float = 0
    """The scenario's part (s) of a run's default budget, which is the sum over its scenarios.
    Unused in a case.
    """


@dataclass(frozen=True)
class Case:
    """One setting that a scenario is measured with: a sample size, a delay, a kind of decoding."""

    name: str
    """Part of keys: "4-MiB", of letters, digits, dots and dashes;
    may be "" in a scenario's first case.
    """
    title: str
    """"4 MiB samples", for people."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON values for the trial's task."""
    value: float | None = None
    """Place on the scenario's axis, in Scenario.case_unit; None for cases without an order."""
    # Values of the case that replace the scenario's; None keeps the scenario's.
    sample_bytes: int | None = None
    dataset_bytes: int = 0
    """Size of a dataset that is large in memory: each worker process may hold a copy."""
    source: str | None = None
    full: Amount | None = None
    quick: Amount | None = None

    def amount(self, quick: bool) -> Amount | None:
        """Return the case's own amount of work in a full or quick run; None if it has none."""
        if quick and self.quick:
            return self.quick
        return self.full
