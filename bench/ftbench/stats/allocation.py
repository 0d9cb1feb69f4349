"""Choice of the number of turns in a trial that makes the intervals narrowest, for a given duration
of the run.

More turns in a trial are cheap, and average out differences between turns. Differences between
processes average out only over more trials, and each trial needs time to start. This is sampling at
two levels (W. G. Cochran, "Sampling Techniques", 3rd edition 1977, section 10.6), with Student's t.
Too few turns in all widen intervals further (ftbench.stats.turns).
"""

import math
from dataclasses import dataclass

from ftbench.stats.statistics import CONFIDENCE, FEWEST_ROUNDS
from ftbench.stats.turns import ENOUGH_TURNS, FEWEST_TURNS, UNSEEN

# Standard deviations of the logarithm of two candidates' ratio, measured on two cores with JPEGs
# (docs/method.md): of one turn, and between processes with any number of turns.
TURNS_VARY, PROCESSES_VARY = 0.15, 0.02
MOST_TURNS = 40
PLANNED_TURNS = ENOUGH_TURNS + 6
"""Turns of a candidate in the whole run, with a fifth for those
that leave since others took CPUs.
"""


@dataclass(frozen=True)
class Costs:
    """Measured seconds of the parts of one trial: its imports, its warm-up, and one turn."""

    imports: float
    warm_up: float
    turn: float

    def trial(self, turns: int, at_once: int) -> float:
        """Estimate the seconds that a trial adds to a run, if `at_once` trials import libraries at
        the same time.
        """
        return self.imports / at_once + self.warm_up + turns * self.turn


def turns(seconds: float, candidates: int, costs: Costs, at_once: int) -> int:
    """Return the number of turns per trial that makes intervals narrowest.

    All rounds together take `seconds` s, and each round has `candidates` trials.
    `at_once`: see Costs.trial.
    """
    from scipy.special import stdtrit

    best, narrowest = FEWEST_TURNS, math.inf
    for number in range(FEWEST_TURNS, MOST_TURNS + 1):
        rounds = int(seconds / (candidates * costs.trial(number, at_once)))
        if rounds < FEWEST_ROUNDS:
            break
        error = math.sqrt((PROCESSES_VARY**2 + TURNS_VARY**2 / number) / rounds)
        half = float(stdtrit(rounds - 1, (1 + CONFIDENCE) / 2)) * error
        if rounds * number < PLANNED_TURNS:
            half += UNSEEN
        if half < narrowest:
            best, narrowest = number, half
    return best
