"""The request for a trial, as it travels to the trial's process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from ftbench.plan.scenario import PATIENCE, Scenario, Task


@dataclass(frozen=True)
class Request:
    """A scenario's Task and the configuration that it runs in."""

    scenario: str
    """The scenario's name: the trial's process looks it up."""
    config: str
    variant: str
    workers: int
    batch_size: int
    warmup_batches: int
    batches: int
    prefetch_factor: int
    paths: list[str] = field(default_factory=list)
    case: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    turns: int = 1
    patience: float = PATIENCE
    """Seconds after which the starter treats the trial as hung."""

    def task(self, scenario: Scenario) -> Task:
        """Return the task for the scenario that was looked up."""
        names = {each.name for each in fields(Task)} - {"scenario"}
        return Task(scenario, **{name: getattr(self, name) for name in names})
