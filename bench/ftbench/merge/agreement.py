"""Agreement of kinds of machine on the steps of a waterfall."""

import itertools
import math
from collections.abc import Mapping, Sequence

from ftbench.merge.kinds import change, exp
from ftbench.merge.model import Agreement, Step
from ftbench.stats.random_effects import Mean, differ, random_effects
from ftbench.stats.statistics import CONFIDENCE, NEGLIGIBLE

# Kinds agree if no two of them are further apart than this factor, which is shown as 10%.
CLOSE = 1.105
# One machine says nothing of others of its kind.
FEWEST_OF_KIND = 2


def agreed_steps(means: Mapping[str, Sequence[Mean]], machines: Sequence[int]) -> list[Step]:
    """Return the agreement of all kinds of machine on each step.

    means: {step: the mean of each kind}
    machines: each kind's number of machines. Kinds of fewer than FEWEST_OF_KIND take no part in
    tests.
    """
    from scipy.stats import false_discovery_control

    if len(machines) == 1:
        return [Step(name, "one kind") for name in means]
    is_tested = [number >= FEWEST_OF_KIND for number in machines]
    steps, tested = [], []
    for name, kinds in means.items():
        steps.append(_untested(name, kinds))
        tested.append([*itertools.compress(kinds, is_tested)])
    if sum(is_tested) > 1:
        p_values = false_discovery_control([*map(differ, tested)])
        for step, kinds, p in zip(steps, tested, p_values, strict=True):
            step.p = float(p)
            step.apart = _apart(kinds)
            step.agreement = _agreement(kinds, step.p, step.apart)
    return steps


def _untested(name: str, kinds: Sequence[Mean]) -> Step:
    """Return a step with the mean of all kinds."""
    effects, errors, *_ = zip(*kinds, strict=True)
    mean = random_effects(effects, errors)
    step = Step(name, "too few machines", change(mean, len(kinds)))
    if len(kinds) > 2:
        step.expected = [*map(exp, mean.interval(prediction=True))]
    return step


def _agreement(kinds: Sequence[Mean], p: float, apart: float) -> Agreement:
    effects, *_ = zip(*kinds, strict=True)
    if p < 1 - CONFIDENCE and max(effects) - min(effects) > math.log(NEGLIGIBLE):
        return "differs"
    return "agrees" if apart <= CLOSE else "undecided"


def _apart(kinds: Sequence[Mean]) -> float:
    """Return a 95% upper bound for the ratio of any two means (Welch's t, Bonferroni)."""
    from scipy.special import stdtrit

    pairs = [*itertools.combinations(kinds, 2)]
    probability = 1 - (1 - CONFIDENCE) / 2 / len(pairs)
    farthest = 0.0
    for a, b in pairs:
        square = a.error**2 + b.error**2
        degrees = square**2 / (a.error**4 / a.degrees + b.error**4 / b.degrees)
        width = float(stdtrit(degrees, probability)) * math.sqrt(square)
        farthest = max(farthest, abs(a.effect - b.effect) + width)
    return exp(farthest)
