"""Random-effects mean of an effect that several machines measured,
and a test of whether such means differ.

Each machine's true effect is drawn around a common mean with the variance tau2, and is measured
with a known error. tau2 is Paule and Mandel's estimate (J. Res. NBS 87, 1982), which assumes no
distribution. The interval of the mean is Student's t with Hartung and Knapp's variance (Stat. Med.
20, 2001). Where this variance is lower than the errors alone imply, the higher value is used, since
few machines may agree by chance (Röver, Knapp and Friede, BMC Med. Res. Methodol. 15, 2015). The
test of equal means is Welch's (Biometrika 38, 1951). statsmodels.stats.meta_analysis has the same
estimates, but no wheel for free-threaded Python 3.13.

The prediction interval is for one more effect as it is measured, with an error like those of the
others. For equal errors that is Student's interval for one further observation, which is exact
(Hahn and Meeker, Statistical Intervals, 1991, 4.8). It holds the true effect more often. The
interval for the true effect, which uses tau2 alone (Higgins, Thompson and Spiegelhalter, J. R.
Stat. Soc. A 172, 2009), is too narrow for few effects that hardly differ, since tau2 is then too
often estimated as 0 (Partlett and Riley, Stat. Med. 36, 2017). Here it held 87% instead of 95%.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ftbench.stats.statistics import CONFIDENCE


class Mean(NamedTuple):
    """A mean of effects (natural logarithms of ratios), with what is needed for its interval."""

    effect: float
    error: float
    """Standard error of the effect."""
    degrees: float
    """Degrees of freedom of the standard error."""
    tau2: float = 0.0
    """Variance of the true effects around their mean; 0 for a single effect."""
    variance: float = 0.0
    """Mean squared error of the effects: the variance of a further effect's measurement."""
    unseen: float = 0.0
    """How much wider the intervals are, up and down (ftbench.stats.turns)."""

    def interval(self, prediction: bool = False) -> tuple[float, float]:
        """Return the mean's confidence interval, or, if *prediction*,
        the prediction interval for one more measured effect.
        """
        from scipy.special import stdtrit

        error = self.error
        if prediction:
            error = math.sqrt(self.tau2 + self.variance + self.error**2)
        far = float(stdtrit(self.degrees, (1 + CONFIDENCE) / 2)) * error + self.unseen
        return self.effect - far, self.effect + far


def random_effects(effects: Sequence[float], errors: Sequence[float]) -> Mean:
    """Return the mean of two or more effects with standard errors > 0;
    raises ValueError for unequal lengths.
    """
    from scipy.optimize import brentq

    spare = len(effects) - 1

    def excess(tau2: float) -> float:
        return _weigh(effects, _weights(errors, tau2)).squares - spare

    tau2 = 0.0
    fixed = _weigh(effects, _weights(errors))
    if fixed.squares > spare:
        # At this tau2, the sum of squares is below `spare`.
        most = _squares([1.0] * len(effects), effects, fixed.mean) / spare
        tau2 = brentq(excess, 0, most)
    weighted = _weigh(effects, _weights(errors, tau2))
    inflation = max(1, weighted.squares / spare)
    return Mean(
        effect=weighted.mean,
        error=math.sqrt(inflation / weighted.total),
        degrees=spare,
        tau2=tau2,
        variance=math.sumprod(errors, errors) / len(errors),
    )


class _Weighted(NamedTuple):
    """Sums over weighted effects."""

    total: float
    """Sum of the weights."""
    mean: float
    squares: float
    """Weighted sum of squared distances from the mean."""


def _weights(errors: Sequence[float], tau2: float = 0.0) -> list[float]:
    """Return the inverse of each effect's variance: that of its error, and tau2."""
    return [1 / (error**2 + tau2) for error in errors]


def _weigh(effects: Sequence[float], weights: Sequence[float]) -> _Weighted:
    total = math.fsum(weights)
    mean = math.sumprod(weights, effects) / total
    return _Weighted(total, mean, _squares(weights, effects, mean))


def _squares(weights: Sequence[float], values: Sequence[float], centre: float) -> float:
    """Return the weighted sum of squared distances from *centre*."""
    squares = [(value - centre) ** 2 for value in values]
    return math.sumprod(weights, squares)


def differ(means: Sequence[Mean]) -> float:
    """Return the p-value of Welch's test that two or more means are equal."""
    from scipy.special import fdtrc

    effects, errors, degrees, *_ = zip(*means, strict=True)
    weights = _weights(errors)
    weighted = _weigh(effects, weights)
    spread = 0.0
    for weight, freedom in zip(weights, degrees, strict=True):
        spread += (1 - weight / weighted.total) ** 2 / freedom
    # The symbols are Welch's.
    k = len(means)
    f = weighted.squares / (k - 1) / (1 + 2 * (k - 2) / (k**2 - 1) * spread)
    return float(fdtrc(k - 1, (k**2 - 1) / (3 * spread), f))
