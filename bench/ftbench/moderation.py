"""Variances of many comparisons, each of few rounds, weighed together.

From three rounds a variance has two degrees of freedom: by luck it comes out ten times too small or too
large, and Student's t must allow for that with intervals twice as wide as they had to be. But a run makes
many comparisons at once, of trials that the same machine disturbs. So each variance is drawn towards
what all have in common, by as much as they resemble each other: if they differ no more than chance makes
them differ, nearly all the way; if they really differ, hardly.

This is the empirical Bayes method of G. K. Smyth, "Linear models and empirical Bayes methods for
assessing differential expression in microarray experiments", Statistical Applications in Genetics and
Molecular Biology 3 (2004), sections 3 and 6.2, where comparisons are as many and replicates as few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# With fewer comparisons, how much variances differ cannot be told.
FEWEST = 5
# Logarithms of ratios whose deviations are below 1e-12 differ by rounding alone.
NOTHING = 1e-24
# A variance of (nearly) nothing, by rounding, has no logarithm to speak of.
LEAST_PART = 1e-5


def variance(values: Sequence[float]) -> float:
    """The sample variance of at least two values."""
    mean = math.fsum(values) / len(values)
    return math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)


def moderate(logs: Sequence[Sequence[float]], contestants: int) -> list[tuple[float, float] | None]:
    """(variance, degrees of freedom) for each comparison's logarithms of ratios, one list per comparison.

    All have the same number of rounds. None where rounds or comparisons are too few, or do not vary, so
    that each comparison is on its own. `contestants` took part: their rounds bound how much can be known.
    """
    rounds = len(logs[0]) if logs else 0
    if rounds < 2 or len(logs) < FEWEST:
        return [None] * len(logs)
    variances = [variance(each) for each in logs]
    middle = sorted(variances)[len(variances) // 2]
    if middle < NOTHING:
        return [None] * len(logs)
    freedom = rounds - 1
    prior, prior_freedom = _prior([max(v, LEAST_PART * middle) for v in variances], freedom)
    # Comparisons share contestants: together they know no more than the contestants' own rounds.
    most = (rounds - 1) * (contestants - 1)
    result: list[tuple[float, float] | None] = []
    for v in variances:
        if math.isinf(prior_freedom):
            result.append((prior, float(most)))
        else:
            weighed = (prior_freedom * prior + freedom * v) / (prior_freedom + freedom)
            result.append((weighed, min(prior_freedom + freedom, float(most))))
    return result


def _prior(variances: Sequence[float], freedom: int) -> tuple[float, float]:
    """(variance, degrees of freedom) that the variances have in common: Smyth's fit of a scaled F distribution.

    The moments of log s² about those that chance alone gives it; infinite degrees of freedom if chance
    explains all of their differences.
    """
    from scipy.special import polygamma, psi

    half = freedom / 2
    found = [math.log(v) - float(psi(half)) + math.log(half) for v in variances]
    mean = math.fsum(found) / len(found)
    excess = variance(found) - float(polygamma(1, half))
    if excess <= 0:
        return math.fsum(variances) / len(variances), math.inf
    prior_half = _inverse_trigamma(excess)
    return math.exp(mean + float(psi(prior_half)) - math.log(prior_half)), 2 * prior_half


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value > 0, by Newton's method on 1/trigamma, which is nearly linear (Smyth, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x
