"""Ratios with confidence intervals, and what may be concluded from them. docs/method.md explains it, with its limits.

A candidate is measured in several processes, one a round, and in each of them many times, in short turns with the
other candidates. Turns of one process may share what is particular to it, so the interval comes from the processes:
each contributes one figure, the mean of the logarithms of the faster half of its turns (`typical`), and two candidates
are compared by the differences of their figures, round by round, with Student's t. That treats a/b and b/a alike
(Fleming and Wallace, "How not to lie with statistics", CACM 29, 1986), and ratios of a chain multiply exactly.

Comparisons that a run is made for are judged one by one. All others are explored: their p-values are adjusted
together, over the whole run (Benjamini and Hochberg, JRSS B 57, 1995), so that of the differences shown among them at
most one in twenty is expected to be none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median, quantiles, stdev

from ftbench.document.model import Change, Verdict
from ftbench.plan.candidates import Target

CONFIDENCE = 0.95
# The probability that a difference of `resolution` would have been shown.
POWER = 0.8
FEWEST_ROUNDS = 3
PERCENTILES = (50, 90, 99)
# Memory repeats to a tenth of a percent, and a difference of as little, however certain, is none to people.
NEGLIGIBLE = 1.01


class Reached(StrEnum):
    """Conclusion about a target. Only ftbench.report.verdict_words puts it in words."""

    MET = "met"
    MISSED = "missed"
    UNCLEAR = "unclear"


@dataclass(kw_only=True)
class Ratio(Change):
    """A ratio over n rounds, and what its verdict follows from."""

    p: float | None
    """The two-sided p-value of no difference; None for one round."""
    q: float | None = None
    """The p-value adjusted for the run's comparisons (Benjamini and Hochberg)."""
    asked: bool = False
    """True if the run was made for it. All others are explored, and corrected for their number."""


def logarithms(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return the logarithms of the ratios of pairs; raises ValueError for unequal lengths or values <= 0."""
    return [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Summarise the ratios of paired positive measurements; raises ValueError for none, and as `logarithms` does."""
    logs = logarithms(numerators, denominators)
    n, mean = len(logs), fmean(logs)
    low = high = p = seen = None
    if n > 1:
        # The import costs more than the rest of this module; most of what imports it only wants names.
        from scipy.special import stdtr, stdtrit

        error = stdev(logs) / math.sqrt(n)
        quantile = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
        low, high = math.exp(mean - quantile * error), math.exp(mean + quantile * error)
        # Rounds that agree to the last digit, in a simulation say, are certain whatever they say.
        p = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error else float(mean == 0)
        # Wild rounds give factors that no float holds; 100 says as much.
        seen = math.exp(min((quantile + float(stdtrit(n - 1, POWER))) * error, math.log(100)))
    found = Ratio(ratio=math.exp(mean), low=low, high=high, n=n, p=p, resolution=seen, verdict=Verdict.TOO_FEW)
    found.verdict = verdict(found)
    return found


def negligible(*ratios: float) -> bool:
    """Return True if no ratio is further from 1 than NEGLIGIBLE."""
    return all(max(ratio, 1 / ratio) <= NEGLIGIBLE for ratio in ratios)


def verdict(r: Ratio) -> Verdict:
    """Return the conclusion from a ratio by its adjusted p-value; by its own if it has none."""
    q = r.p if r.q is None else r.q
    if r.n < FEWEST_ROUNDS or r.low is None or r.high is None:
        return Verdict.TOO_FEW
    certain = (r.low > 1 or r.high < 1) and (q is None or q < 1 - CONFIDENCE)
    if certain and not negligible(r.ratio):
        return Verdict.ABOVE if r.ratio > 1 else Verdict.BELOW
    return Verdict.NO_DIFFERENCE


def reached(r: Change, target: Target) -> Reached:
    """Return the conclusion from a ratio about a target: met or missed if all of the interval lies on one side."""
    if r.n < FEWEST_ROUNDS or r.low is None or r.high is None:
        return Reached.UNCLEAR
    least = target.at == "least"
    if r.low >= target.value if least else r.high <= target.value:
        return Reached.MET
    return Reached.MISSED if (r.high < target.value if least else r.low > target.value) else Reached.UNCLEAR


def percentiles(rounds: Sequence[Sequence[float]]) -> dict[int, tuple[float, float, float]]:
    """Take each of PERCENTILES within each round; return the median, the lowest and the highest of the rounds.

    Values of one trial depend on each other (a slow second slows many steps). So only the rounds tell how certain a
    percentile is.
    """
    cuts = [quantiles(of, n=100, method="inclusive") for of in rounds]
    return {p: (median(at := [of[p - 1] for of in cuts]), min(at), max(at)) for p in PERCENTILES}
