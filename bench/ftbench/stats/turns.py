"""Estimates, from a trial's turns, how much the trial's figure varies because it has so few of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

from ftbench.document.model import Scenario, Trial
from ftbench.plan.metrics import METRICS
from ftbench.stats.allocation import FEWEST_TURNS, PROCESSES_VARY


def variance_of_typical(seconds: Sequence[float]) -> float:
    """Estimate the variance of the logarithm of ``typical(seconds)``, the mean of the fastest third of these turns.

    The estimate is the squared standard error of a trimmed mean, from the Winsorized variance: Tukey and McLaughlin,
    "Less vulnerable confidence and significance procedures for location based on a single sample", Sankhya A 25, 1963.
    At least FEWEST_TURNS turns are needed.
    """
    logs = sorted(map(math.log, seconds))
    kept = -(-len(logs) // 3)
    winsorized = logs[:kept] + [logs[kept - 1]] * (len(logs) - kept)
    return variance(winsorized) * (len(logs) - 1) / (kept * (kept - 1))


def of_trial(trial: Trial, metric: str) -> list[list[float]]:
    """Return the turns (s) that a trial's figure in this metric is made of: one list, two for a ratio, or none."""
    return [trial.turn_seconds] if METRICS[metric].of_turns else trial.condition_seconds.get(metric, [])


def variance_of_round(*candidates: Sequence[Sequence[Sequence[float]]]) -> float | None:
    """Estimate the variance of the logarithm of a candidate's figure in a round, or of the ratio of two candidates.

    Each candidate is given by the turns of each of its trials (see `of_trial`). The estimate includes PROCESSES_VARY,
    since processes differ even with many turns. Returns None if a trial has too few turns.
    """
    trials = [trial for candidate in candidates for trial in candidate]
    if any(not trial or min(map(len, trial)) < FEWEST_TURNS for trial in trials):
        return None
    of_turns = fmean(sum(map(variance_of_typical, trial)) for trial in trials)
    # PROCESSES_VARY is the standard deviation of the ratio of two processes.
    return len(candidates) * (PROCESSES_VARY**2 / 2 + of_turns)


def expected(scenario: Scenario, metric: str, *keys: str) -> float | None:
    """Return ``variance_of_round`` for one candidate or two (keys); None for a metric that is not made of turns."""
    return variance_of_round(*([of_trial(each, metric) for each in scenario.trials_of(key)] for key in keys))
