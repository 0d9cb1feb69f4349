"""How much a trial's figure varies because it is made of a few turns, judged by these turns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, variance

from ftbench.document.model import Scenario
from ftbench.plan.metrics import METRICS
from ftbench.stats.allocation import FEWEST_TURNS, PROCESSES_VARY


def variance_of_typical(seconds: Sequence[float]) -> float:
    """Estimate the variance of the logarithm of ``typical(seconds)``, the mean of the faster half of these turns.

    The squared standard error of a trimmed mean, from the Winsorized variance: Tukey and McLaughlin, "Less vulnerable
    confidence and significance procedures for location based on a single sample", Sankhya A 25, 1963.
    """
    logs = sorted(map(math.log, seconds))
    kept = (len(logs) + 1) // 2
    winsorized = logs[:kept] + [logs[kept - 1]] * (len(logs) - kept)
    return variance(winsorized) * len(logs) / kept**2


def variance_of_ratio(turns: Iterable[Sequence[float]]) -> float | None:
    """Estimate the variance of the logarithm of a round's ratio from the turns (s) of each trial of both candidates.

    PROCESSES_VARY is added: processes differ even with many turns. None if a trial has too few turns.
    """
    turns = list(turns)
    if any(len(each) < FEWEST_TURNS for each in turns):
        return None
    return PROCESSES_VARY**2 + 2 * fmean(map(variance_of_typical, turns))


def expected(scenario: Scenario, numerator: str, denominator: str, metric: str) -> float | None:
    """Return ``variance_of_ratio`` for two candidates (keys); None for a metric that is not a turn's speed."""
    if not METRICS[metric].of_turns:
        return None
    return variance_of_ratio(t.turn_seconds for key in (numerator, denominator) for t in scenario.trials_of(key))
