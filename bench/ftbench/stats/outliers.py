"""Outliers among machines that should be alike: the generalised extreme Studentised deviate test.

B. Rosner, "Percentage points for a generalized ESD many-outlier procedure", Technometrics 25, 1983.
Again and again, the value farthest from the mean of the remaining values is tested, then removed.
Outliers are the last value that was too far from this mean, and all values removed before it. So
two slow machines do not hide each other.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

FEWEST = 4
"""Fewest machines of which one can be an outlier: of three,
none is ever far enough from their mean.
"""
ROSNERS = 25
"""With fewer values than this, Rosner's test finds up to three times
as many false outliers as it should.
"""


def outliers(values: Sequence[float], alpha: float) -> list[int]:
    """Return the positions of outliers, the farthest first; at most a quarter of the values.

    Values are assumed to be normally distributed, with equal variances.
    *alpha*: risk of finding a false outlier.
    """
    if len(values) < FEWEST:
        return []
    most = len(values) // 4
    risk = alpha
    if len(values) < ROSNERS:
        risk /= most
    left = dict(enumerate(values))
    removed: list[int] = []
    number = 0
    for _ in range(most):
        limit = critical(len(left), risk) * stdev(left.values())
        centre = fmean(left.values())
        distances = {position: abs(value - centre) for position, value in left.items()}
        farthest = max(distances, key=distances.__getitem__)
        removed.append(farthest)
        del left[farthest]
        if distances[farthest] > limit > 0:
            number = len(removed)
    return removed[:number]


def critical(n: int, alpha: float) -> float:
    """Return the distance from the mean, in standard deviations,
    beyond which one of *n* values is an outlier.
    """
    from scipy.special import stdtrit

    t = float(stdtrit(n - 2, 1 - alpha / (2 * n)))
    return t * (n - 1) / math.sqrt((n - 2 + t * t) * n)
