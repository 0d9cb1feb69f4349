"""The conditions that a scenario is measured under, and the amount of work in one measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Amount:
    """Amount of work in one measurement, and the scenario's share of a run's time."""

    batch_size: int
    batches_per_worker: int
    """Batches that each worker builds in the measured stretch, whatever the number of workers."""
    turns: int = 1
    """How many times a trial measures these batches, in turn with the round's other trials (ftbench.measure.epochs)."""
    seconds: float = 0
    """The scenario's share of a run's time (s), which is also the time of a run of it alone; unused in a case."""


@dataclass(frozen=True)
class Case:
    """One condition of a scenario: a sample size, a delay, a kind of decoding."""

    name: str
    """Part of keys: "4-MiB", of letters, digits, dots and dashes; may be "" in a scenario's first case."""
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
