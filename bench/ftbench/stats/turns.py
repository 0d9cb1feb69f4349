"""The variance that a trial's turns predict for its figure: how much the figure varies because it
has so few of them.

A figure is a ratio of means, so its variance comes from the turns' relative distances from their
mean (the ratio estimator: W. G. Cochran, "Sampling Techniques", 3rd edition 1977, section 6.3).
Turns of two candidates in the same cycle are compared with each other, since what slows the whole
machine slows both.

Few turns may hold none of a candidate's rare long ones, such as those with a garbage collection.
Nothing in the turns tells that, so their variance cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, variance
from typing import NamedTuple

from ftbench.document.model import MeasuredScenario, Trial
from ftbench.plan.candidates import by_key
from ftbench.plan.metrics import METRICS

FEWEST_TURNS = 4
"""With fewer turns in a trial, their variance says nothing."""

# Of a candidate's rare long turns, one in ten is twice as long.
RARE, TIMES_AS_LONG = 0.1, 2.0
ENOUGH_TURNS = math.ceil(math.log(0.05) / math.log(1 - RARE))
"""With fewer turns in a run, more than one run in twenty holds none of the rare long ones: 29."""
UNSEEN = math.log(1 + RARE * (TIMES_AS_LONG - 1))
"""Change of a figure's logarithm by the rare long turns,
which a run without any of them does not show.
"""

Series = Sequence[Sequence[float]]
"""The turns (s) of a trial's figure: one list, or two for a ratio of two conditions,
of equal lengths.
"""


class Predicted(NamedTuple):
    """The variance of a round's logarithm that the turns predict, and its degrees of freedom."""

    variance: float
    degrees: int
    unseen: float = 0.0
    """Possible error of the mean of all rounds, up or down,
    if there are too few turns for rare long ones.
    """


def of_trial(trial: Trial, metric: str) -> list[list[float]]:
    """Return the turns (s) that count for a trial's figure in this metric; no list if the figure is
    not made of any.
    """
    if METRICS[metric].of_turns:
        return [trial.counted(trial.turn_seconds)]
    return list(map(trial.counted, trial.condition_seconds.get(metric, [])))


def relative_distances(series: Series) -> list[float]:
    """Return each turn's effect on the figure, relative to the figure: 0.1 if this turn is 10%
    above the mean.

    For two conditions, the effect is the difference of the effects of both.
    """
    distances = []
    for turns in series:
        mean = fmean(turns)
        distances.append([seconds / mean - 1 for seconds in turns])
    if len(distances) == 1:
        return distances[0]
    return _differences(*distances)


def _differences(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(first, second, strict=True)]


def too_few(*candidates: Sequence[Series]) -> int | None:
    """Return the number of turns of the candidate that has the fewest,
    if they are too few for rare long ones.

    Each candidate is given by its trials, one a round. Returns None if there are enough, or if no
    trial has two turns: a single one is long enough.
    """
    totals = []
    longest = 0
    for trials in candidates:
        numbers = list(map(_number, trials))
        totals.append(sum(numbers))
        longest = max(longest, *numbers, 0)
    fewest = min(totals, default=0)
    if longest <= 1 or fewest >= ENOUGH_TURNS:
        return None
    return fewest


def _number(series: Series) -> int:
    """Return the number of turns of a trial."""
    return min(map(len, series), default=0)


def predict(*candidates: Sequence[Series]) -> Predicted | None:
    """Return the prediction for a candidate's figure in a round,
    or for the ratio of two candidates.

    Each candidate is given by its trials, one a round. Rounds in which a trial has fewer than
    FEWEST_TURNS turns say nothing of the variance, which is 0 if no round does. Returns None if no
    trial has two turns.
    """
    enough = filter(_has_enough_turns, zip(*candidates, strict=True))
    rounds = list(map(_predict_round, enough))
    unseen = 0.0
    if too_few(*candidates) is not None:
        unseen = UNSEEN
    if rounds:
        variances, degrees = zip(*rounds, strict=True)
        return Predicted(fmean(variances), sum(degrees), unseen)
    return Predicted(0.0, 1, unseen) if unseen else None


def _has_enough_turns(trials: Iterable[Series]) -> bool:
    """True if each trial of a round has enough turns for a variance."""
    return min(map(_number, trials)) >= FEWEST_TURNS


def _predict_round(trials: Iterable[Series]) -> tuple[float, int]:
    """Return (the variance of a round that the turns of its trials predict,
    the variance's degrees of freedom).
    """
    distances = list(map(relative_distances, trials))
    lengths = set(map(len, distances))
    if len(distances) == 2 and len(lengths) == 1:  # the same cycles
        distances = [_differences(*distances)]
    return sum(map(_variance_of_mean, distances)), min(lengths) - 1


def _variance_of_mean(values: Sequence[float]) -> float:
    return variance(values) / len(values)


def predicted(scenario: MeasuredScenario, metric: str, *keys: str) -> Predicted | None:
    """Return `predict` for one candidate or two (keys);
    None for a metric that is not made of turns.
    """
    return predict(*_of_candidates(scenario, metric, keys))


def too_few_of_all(scenario: MeasuredScenario) -> int | None:
    """Return `too_few` for all candidates in the scenario's main metric."""
    keys = by_key(scenario.whole)
    return too_few(*_of_candidates(scenario, scenario.metrics[0], keys))


def _of_candidates(
    scenario: MeasuredScenario, metric: str, keys: Iterable[str]
) -> list[list[list[list[float]]]]:
    candidates = []
    for key in keys:
        candidates.append([of_trial(trial, metric) for trial in scenario.trials_of(key)])
    return candidates
