"""The conditions that a scenario is measured under, and how much work makes one measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Amount:
    """How much work makes one measurement."""

    batch_size: int
    batches_per_worker: int
    """Length of what is measured; every worker builds as many, whatever their number."""
    turns: int = 1
    """How many times a trial measures it, in turn with the others of its round (ftbench.measure.epochs can)."""


@dataclass(frozen=True)
class Case:
    """One condition that a scenario is measured under: a sample size, a delay, a kind of decoding."""

    name: str
    """Part of keys: "4-MiB", of lower and upper case letters, digits, dots and dashes.

    A scenario's first case may be called "", and its keys are then those of a scenario without cases.
    """
    title: str
    """"4 MiB samples", for people."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON values; a trial finds them in its task."""
    value: float | None = None
    """Its place on the scenario's axis, in its unit (Scenario.case_unit); None for what has no order."""
    # What it has otherwise than the scenario; None for what is the same.
    sample_bytes: int | None = None
    dataset_bytes: int = 0
    """Of a dataset that is large in memory: worker processes may come to hold a copy each."""
    source: str | None = None
    full: Amount | None = None
    quick: Amount | None = None
