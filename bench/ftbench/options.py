"""The options of a run, as its command line has them.

ftbench.document.model.Options is their record in results.json. This module needs only the standard
library and Python 3.9 (see ftbench.arguments).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ftbench.plan.scenario import Scenario
from ftbench.scenarios.command import UsersCommand


class UsageError(Exception):
    """Raised if the command line is invalid or asks for something impossible."""


@dataclass(frozen=True)
class RunOptions:
    """The checked options of a run. The fields without a comment are named after their options."""

    scenarios: tuple[Scenario, ...]
    """The scenarios to measure, which several ranks can measure if there are any."""
    left_out: tuple[tuple[str, str], ...]
    """(name of a scenario that --ranks excludes, the reason)."""
    quick: bool
    out: Path
    data: Path | None
    dataset: str | None
    collate_fn: str | None
    command: UsersCommand | None
    packages: tuple[str, ...]
    """Of each --package."""
    requirements: Path | None
    cache: Path | None
    rounds: int | None
    budget: float | None
    """Seconds for the whole run; None for the scenarios' own."""
    precision: float
    workers: list[int] | None
    ranks: int | None
    """Number of ranks, 2 or more; None for a process without torchrun."""
    batch_size: int | None
    configs: tuple[str, ...]
    stress: bool
    stress_minutes: float | None
    again: int
    """Number of runs, 1 or more."""
    every: float
    """Seconds from the start of a run to that of the next."""
    tables: bool
    why: bool
    """True if only the reason why threads do not scale is measured."""
    twin: tuple[tuple[str, str], ...]
    """(name of a twin, its endpoint) of each --twin."""
