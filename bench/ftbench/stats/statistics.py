"""Ratios with confidence intervals, and what may be concluded from them.

docs/method.md explains all of it in one page, with its limits; this is what is computed.

A candidate is measured in several processes, one a round, and in each of them many times, in short turns with the
other candidates. Turns of one process may share what is particular to it, so the interval comes from the processes:
each contributes one figure, the mean of the logarithms of the faster half of its turns (`typical`), and two candidates
are compared by the differences of their figures, round by round, with Student's t. That treats a/b and b/a alike
(Fleming and Wallace, "How not to lie with statistics", CACM 29, 1986), and ratios of a chain multiply exactly.

`resolution` says what such a run could have seen at all: the smallest true difference that it would have shown in
eight of ten repetitions.

Comparisons that a run is made for are judged one by one. All others are explored: their p-values are adjusted
together, over the whole run (scipy.stats.false_discovery_control; Benjamini and Hochberg, JRSS B 57, 1995), so
that of the differences shown among them at most one in twenty is expected to be none.

A target is met if the whole interval of the ratio lies on its good side, missed if all of it lies
on the other, and unclear if it lies on both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean, median, quantiles, stdev

from ftbench.document.model import Verdict
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


@dataclass(frozen=True)
class Ratio:
    """A ratio over n rounds with its confidence interval; None for what one round cannot tell."""

    ratio: float
    """The geometric mean of the rounds' ratios."""
    low: float | None
    high: float | None
    n: int
    p: float | None = None
    """The two-sided p-value of no difference."""
    resolution: float | None = None
    """The smallest factor that eight of ten such runs would show (POWER)."""


def logarithms(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """Return the logarithms of the ratios of pairs; raises ValueError for none, unequal lengths or values <= 0."""
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError("ratio() needs as many numerators as denominators, and at least one")
    if min(*numerators, *denominators) <= 0:
        raise ValueError("ratio() needs positive measurements")
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    if not all(0 < each < math.inf for each in ratios):
        raise ValueError("no float holds these ratios")
    return [math.log(each) for each in ratios]


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Summarise the ratios of paired positive measurements; raises ValueError as `logarithms` does."""
    logs = logarithms(numerators, denominators)
    n, mean = len(logs), fmean(logs)
    if n == 1:
        return Ratio(math.exp(mean), None, None, 1)
    # The import costs more than the rest of this module; most of what imports it only wants names.
    from scipy.special import stdtr, stdtrit

    error = stdev(logs) / math.sqrt(n)
    quantile = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    half = quantile * error
    # Rounds that agree to the last digit, in a simulation say, are certain whatever they say.
    p = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error else float(mean == 0)
    # Wild rounds give factors that no float holds; 100 says as much.
    seen = math.exp(min((quantile + float(stdtrit(n - 1, POWER))) * error, math.log(100)))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, p, seen)


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values adjusted for the number of comparisons (Benjamini and Hochberg); None stays None."""
    from scipy.stats import false_discovery_control

    known = [p for p in p_values if p is not None]
    found = iter(false_discovery_control(known, method="bh") if known else ())
    return [None if p is None else float(next(found)) for p in p_values]


def negligible(*ratios: float) -> bool:
    """Return True if no ratio is further from 1 than NEGLIGIBLE."""
    return all(max(ratio, 1 / ratio) <= NEGLIGIBLE for ratio in ratios)


def verdict(r: Ratio, q: float | None = None) -> Verdict:
    """Return the conclusion from a ratio; `q` is its adjusted p-value, by default its own."""
    q = r.p if q is None else q
    if r.n < FEWEST_ROUNDS or r.low is None or r.high is None:
        return Verdict.TOO_FEW
    certain = (r.low > 1 or r.high < 1) and (q is None or q < 1 - CONFIDENCE)
    if certain and not negligible(r.ratio):
        return Verdict.ABOVE if r.ratio > 1 else Verdict.BELOW
    return Verdict.NO_DIFFERENCE


def reached(r: Ratio, target: Target) -> Reached:
    """Return the conclusion from a ratio about a target."""
    if r.n < FEWEST_ROUNDS or r.low is None or r.high is None:
        return Reached.UNCLEAR
    if target.at == "least":
        return Reached.MET if r.low >= target.value else Reached.MISSED if r.high < target.value else Reached.UNCLEAR
    return Reached.MET if r.high <= target.value else Reached.MISSED if r.low > target.value else Reached.UNCLEAR


def percentiles(rounds: Sequence[Sequence[float]]) -> dict[int, tuple[float, float, float]]:
    """Take each of PERCENTILES within each round; return the median, the lowest and the highest of the rounds.

    Values of one trial depend on each other (a slow second slows many steps). So only the rounds tell how certain a
    percentile is.
    """
    cuts = [quantiles(of, n=100, method="inclusive") for of in rounds]
    return {p: (median(at := [of[p - 1] for of in cuts]), min(at), max(at)) for p in PERCENTILES}
