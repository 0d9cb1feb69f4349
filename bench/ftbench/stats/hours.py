"""The deviation between runs of one machine at different hours,
which no interval of a single run holds.

The rounds of a run share its hour: the state of the processor, of the memory and of other virtual
machines. Ratios of kept runs of unchanged software on one machine had a standard deviation of 3%
(of the logarithm) between runs within days, and of 6% over weeks. So an interval of one run held
the mean of its machine's runs in 68% of simulated runs.

Few runs say little of a deviation. So their variance is averaged with the usual one, which weighs
as much as USUAL_RUNS further runs (the moderated t: Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ftbench.stats.random_effects import Mean, random_effects
from ftbench.stats.statistics import exponential

# Standard deviations of a logarithm between two runs of one machine, if no runs tell it: of a
# ratio, and of a value. The second is that of six kept runs beside other load (docs/results).
USUAL, USUAL_OF_VALUES = 0.03, 0.15
USUAL_RUNS = 4
# With fewer runs, nothing is said of other hours.
FEWEST = 3
# Rounds that agree to the last digit would have no error, and a run or machine of infinite weight.
LEAST_ERROR = 1e-6

RunFigure = tuple[float, float]
"""The logarithm of a figure in one run, and its standard error within the run."""


@dataclass(frozen=True)
class Hours:
    """One ratio in all runs of the same machine, settings and software, this run included."""

    runs: int
    seconds: float
    """From the start of the first run to that of the last."""
    lowest: float
    """The lowest ratio of a run."""
    highest: float
    expected: tuple[float, float] | None
    """The ratio that one more run is expected to measure (95%); None for fewer than FEWEST runs."""


class Deviation(NamedTuple):
    """Variance of a logarithm between runs of one machine,
    with its degrees of freedom (infinite: assumed).
    """

    variance: float
    degrees: float = math.inf
    runs: int = 0
    """Number of runs that told the variance; 0 if it is assumed."""

    @property
    def sigma(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)


def hours(figures: Sequence[RunFigure], seconds: float) -> Hours:
    """Return the range of a ratio over runs at different hours, and what to expect of one more run.

    figures: those of one or more runs, whose starts are *seconds* apart.
    """
    logs, _ = zip(*figures, strict=True)
    expected = None
    if len(logs) >= FEWEST:
        low, high = _mean(figures).interval(prediction=True)
        expected = exponential(low), exponential(high)
    return Hours(len(logs), seconds, exponential(min(logs)), exponential(max(logs)), expected)


def _mean(figures: Sequence[RunFigure]) -> Mean:
    """Return the mean of a figure over several runs of one machine."""
    logs, errors = zip(*figures, strict=True)
    return random_effects(logs, [max(LEAST_ERROR, error) for error in errors])


def deviation(sets: Iterable[Sequence[RunFigure]], usual: float = USUAL) -> Deviation:
    """Return the variance between runs, from *sets* of runs, each of one machine with the same
    settings and software.

    Sets of fewer than FEWEST runs say nothing. If no set says anything,
    return the variance *usual* ** 2.
    """
    squares = usual**2 * USUAL_RUNS
    degrees = USUAL_RUNS
    runs = 0
    for figures in sets:
        if len(figures) >= FEWEST:
            squares += _mean(figures).tau2 * (len(figures) - 1)
            degrees += len(figures) - 1
            runs += len(figures)
    return Deviation(squares / degrees, degrees if runs else math.inf, runs)


def degrees_of_sum(*parts: tuple[float, float]) -> float:
    """Return the degrees of freedom of a sum of variances (Welch and Satterthwaite):
    each with its own degrees.
    """
    variances, _ = zip(*parts, strict=True)
    total = math.fsum(variances)
    spread = math.fsum(variance**2 / degrees for variance, degrees in parts)
    return total**2 / spread if spread else math.inf
