"""Ratios with confidence intervals, and the conclusions from them. docs/method.md explains the
method and its limits.

Each round measures a candidate in a new process, in many short turns, which alternate with other
candidates' turns. Each process contributes one figure: the samples of its turns divided by their
seconds. Two candidates are compared by the logarithms of their figures' ratios, round by round.
This method treats a/b and b/a alike (Fleming and Wallace, "How not to lie with statistics", CACM
29, 1986), and ratios of a chain multiply exactly.

All turns of a process may be fast or slow together, so the interval is Student's t over the rounds.
A few rounds may agree by chance. So the interval is never narrower than the one that the turns
predict (ftbench.stats.turns). Where a run has too few turns for a candidate's rare long ones, the
interval is wider by what these may change.

The comparisons that a run is made for are judged one by one. All others are explored: their
p-values are adjusted together, over the whole run (Benjamini and Hochberg, JRSS B 57, 1995). Then
at most one in twenty of the differences that they show is expected to be false.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from ftbench.document.model import Change, Verdict
from ftbench.plan.shortest import FEWEST_ROUNDS
from ftbench.stats.turns import Predicted

CONFIDENCE = 0.95
# The probability that a difference of `resolution` would have been shown.
POWER = 0.8
# A difference as small as this matters to no one, even if it is certain. So a verdict needs an
# interval beyond it.
NEGLIGIBLE = 1.01


@dataclass(kw_only=True)
class Ratio(Change):
    """A ratio over n rounds, with the p-values that its verdict depends on."""

    p: float | None
    """The two-sided p-value for "no difference"; None for one round."""
    q: float | None = None
    """The p-value adjusted for the run's comparisons (Benjamini and Hochberg)."""
    asked: bool = False
    """True if the run was made for this ratio. The p-values
    of all other ratios are adjusted together.
    """

    @property
    def change(self) -> Change:
        """The ratio as results.json has it, without the p-values."""
        return Change(
            ratio=self.ratio,
            low=self.low,
            high=self.high,
            n=self.n,
            resolution=self.resolution,
            verdict=self.verdict,
        )


def logarithms(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return log(a / b) for each pair of values;
    raises ValueError for unequal lengths or values <= 0.
    """
    return [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]


def exponential(logarithm: float, most: float = 700.0) -> float:
    """Return exp(logarithm), first limiting the logarithm to between -*most* and *most*,
    so that nothing overflows.
    """
    return math.exp(max(-most, min(most, logarithm)))


def spread(logs: Sequence[float], predicted: Predicted | None = None) -> tuple[float, int]:
    """Return (variance of a round, its degrees of freedom):
    that between the rounds, or the predicted one.

    Of the two, the one that gives the wider interval is returned. *logs*: the logarithm of each of
    two or more rounds.
    """
    # This import takes longer than the rest of the module,
    # and most importers only need the module's names.
    from scipy.special import stdtrit

    def half_width(candidate: tuple[float, int]) -> float:
        squared, degrees = candidate
        return math.sqrt(squared) * float(stdtrit(degrees, (1 + CONFIDENCE) / 2))

    measured = variance(logs), len(logs) - 1
    if predicted is None:
        return measured
    return max(measured, predicted[:2], key=half_width)


def ratio(
    numerators: Sequence[float], denominators: Sequence[float], predicted: Predicted | None = None
) -> Ratio:
    """Return the geometric mean of the ratios, with its interval; raises ValueError for no values
    or values <= 0.

    *predicted*: what the turns predict of a round's logarithm (ftbench.stats.turns.predict);
    None if unknown.
    """
    logs = logarithms(numerators, denominators)
    result = Ratio(
        ratio=math.exp(fmean(logs)),
        low=None,
        high=None,
        n=len(logs),
        p=None,
        resolution=None,
        verdict=Verdict.TOO_FEW,
    )
    if len(logs) > 1:
        _add_interval(result, logs, predicted)
    result.verdict = verdict(result)
    return result


def _add_interval(r: Ratio, logs: Sequence[float], predicted: Predicted | None) -> None:
    """Set the interval of a ratio, its p-value and its resolution, from the logarithms of two or
    more rounds.
    """
    from scipy.special import stdtr, stdtrit

    mean = fmean(logs)
    unseen = 0.0
    if predicted:
        unseen = predicted.unseen
    squared, degrees = spread(logs, predicted)
    error = math.sqrt(squared / len(logs))
    half = float(stdtrit(degrees, (1 + CONFIDENCE) / 2)) * error + unseen
    r.low = exponential(mean - half)
    r.high = exponential(mean + half)
    beyond = max(0.0, abs(mean) - unseen)
    if error:
        r.p = 2 * float(stdtr(degrees, -beyond / error))
    else:  # rounds that agree to the last digit, as in a simulation, make the ratio certain
        r.p = float(beyond == 0)
    # Very different rounds give factors that overflow a float. 100 is as useful.
    far = half + float(stdtrit(degrees, POWER)) * error + math.log(NEGLIGIBLE)
    r.resolution = math.exp(min(far, math.log(100)))


def negligible(*ratios: float) -> bool:
    """True if every ratio is so close to 1 that a difference does not matter: between 1 /
    NEGLIGIBLE and NEGLIGIBLE.
    """
    return max(ratios) <= NEGLIGIBLE and 1 / min(ratios) <= NEGLIGIBLE


def verdict(r: Ratio) -> Verdict:
    """Return the verdict on a ratio, from its interval and its p-value: the adjusted `q`, or `p` if
    `q` is None.
    """
    if r.n < FEWEST_ROUNDS or r.interval is None:
        return Verdict.TOO_FEW
    low, high = r.interval
    q = r.p if r.q is None else r.q
    is_beyond = low > NEGLIGIBLE or high < 1 / NEGLIGIBLE
    if not is_beyond or (q is not None and q >= 1 - CONFIDENCE):
        return Verdict.NO_DIFFERENCE
    return Verdict.ABOVE if r.ratio > 1 else Verdict.BELOW
