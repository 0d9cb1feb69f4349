"""The variance that a trial's turns predict for its figure: how much the figure varies because it has so few of them.

A figure is a ratio of means, so its variance comes from the turns' relative distances from their mean (the ratio
estimator: W. G. Cochran, "Sampling Techniques", 3rd edition 1977, section 6.3). Turns of two candidates in the same
cycle are compared with each other, since what slows the whole machine slows both.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, variance
from typing import NamedTuple

from ftbench.document.model import Scenario, Trial
from ftbench.plan.metrics import METRICS

FEWEST_TURNS = 4
"""With fewer turns in a trial, their variance says nothing."""

Series = Sequence[Sequence[float]]
"""The turns (s) of a trial's figure: one list, or two for a ratio of two conditions, of equal lengths."""


class Predicted(NamedTuple):
    """The variance of a round's logarithm that the turns predict, and its degrees of freedom."""

    variance: float
    degrees: int


def of_trial(trial: Trial, metric: str) -> list[list[float]]:
    """Return the turns (s) that count for a trial's figure in this metric; no list if the figure is not made of any."""
    series = [trial.turn_seconds] if METRICS[metric].of_turns else trial.condition_seconds.get(metric, [])
    return [trial.counted(turns) for turns in series]


def relative_distances(series: Series) -> list[float]:
    """Return each turn's effect on the figure, relative to the figure: 0.1 if this turn is 10% above the mean.

    For two conditions, the effect is the difference of the effects of both.
    """
    means = [fmean(turns) for turns in series]
    signs = (1, -1)[: len(means)]
    return [
        sum(sign * (seconds / mean - 1) for sign, seconds, mean in zip(signs, cycle, means, strict=True))
        for cycle in zip(*series, strict=True)
    ]


def predict(*candidates: Sequence[Series]) -> Predicted | None:
    """Return the prediction for a candidate's figure in a round, or for the ratio of two candidates.

    Each candidate is given by its trials, one a round. Rounds in which a trial has fewer than FEWEST_TURNS turns say
    nothing. Returns None if no round says anything.
    """
    variances, degrees = [], 0
    for trials in zip(*candidates, strict=True):
        if any(not series or min(map(len, series)) < FEWEST_TURNS for series in trials):
            continue
        distances = [relative_distances(series) for series in trials]
        lengths = {len(one) for one in distances}
        if len(lengths) == 1:  # the same cycles
            distances = [[cycle[0] - sum(cycle[1:]) for cycle in zip(*distances, strict=True)]]
        variances.append(sum(variance(one) / len(one) for one in distances))
        degrees += min(lengths) - 1
    return Predicted(fmean(variances), degrees) if variances else None


def predicted(scenario: Scenario, metric: str, *keys: str) -> Predicted | None:
    """Return `predict` for one candidate or two (keys); None for a metric that is not made of turns."""
    return predict(*([of_trial(trial, metric) for trial in scenario.trials_of(key)] for key in keys))
