"""How much a trial's figure varies because it is made of a few turns, judged by these turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance

from ftbench.document.model import Scenario, Trial
from ftbench.plan.metrics import METRICS
from ftbench.stats.allocation import FEWEST_TURNS, PROCESSES_VARY


def variance_of_typical(seconds: Sequence[float]) -> float:
    """Estimate the variance of the logarithm of ``typical(seconds)``, the mean of the faster half of these turns.

    The squared standard error of a trimmed mean, from the Winsorized variance: Tukey and McLaughlin, "Less vulnerable
    confidence and significance procedures for location based on a single sample", Sankhya A 25, 1963.
    """
    kept = (len(seconds) + 1) // 2
    return _winsorized(seconds, 0, len(seconds) - kept) * len(seconds) / kept**2


def variance_of_factor(ratios: Sequence[float]) -> float:
    """Estimate the variance of the logarithm of ``factor(ratios)``, the mean of the middle half of these ratios.

    This is Tukey and McLaughlin's estimate, too. With n / kept**2 it would be a third too small for four turns.
    """
    outer = len(ratios) // 4
    kept = len(ratios) - 2 * outer
    return _winsorized(ratios, outer, outer) * (len(ratios) - 1) / (kept * (kept - 1))


def _winsorized(values: Sequence[float], low: int, high: int) -> float:
    """Return the Winsorized variance of the values' logarithms: the *low* lowest and *high* highest moved inwards."""
    logs = sorted(map(math.log, values))
    kept = logs[low : len(logs) - high]
    return variance([kept[0]] * low + kept + [kept[-1]] * high)


def of_trial(trial: Trial, metric: str) -> list[float]:
    """Return the turns' values that a trial's figure in this metric is made of: seconds, or ratios; [] if of none."""
    return trial.turn_seconds if METRICS[metric].of_turns else trial.turn_ratios.get(metric, [])


def variance_of_round(metric: str, *candidates: Sequence[Sequence[float]]) -> float | None:
    """Estimate the variance of the logarithm of a candidate's figure in a round, or of the ratio of two candidates.

    Each candidate is given by the values of each of its trials (see `of_trial`). PROCESSES_VARY is added: processes
    differ even with many turns. None if a trial has too few turns.
    """
    trials = [values for candidate in candidates for values in candidate]
    if any(len(values) < FEWEST_TURNS for values in trials):
        return None
    of_figure = variance_of_typical if METRICS[metric].of_turns else variance_of_factor
    # PROCESSES_VARY is the standard deviation of the ratio of two processes.
    return len(candidates) * (PROCESSES_VARY**2 / 2 + fmean(map(of_figure, trials)))


def expected(scenario: Scenario, metric: str, *keys: str) -> float | None:
    """Return ``variance_of_round`` for one candidate or two (keys); None for a metric that is not made of turns."""
    return variance_of_round(metric, *([of_trial(each, metric) for each in scenario.trials_of(key)] for key in keys))
