"""Can the verdicts be trusted? Simulated runs whose truth is known, through all of the statistics.

The same with real trials: `python -m evaluation.trust.measure`,
whose figures are in docs/method.md.
"""

import math
import random

import pytest

from ftbench.document.model import Verdict
from ftbench.plan.candidates import CONFIGS
from ftbench.plan.comparisons import grid
from ftbench.stats.comparisons import compared, judge
from tests.unit.bench.simulated import TRIAL_NOISE, measured, values

RUNS = 20
CANDIDATES = [c for _, c in grid().ranked(CONFIGS, [1, 2], quick=False)]
# Where a run may end for its precision, and somewhat more.
ROUNDS = (5, 8)


def verdicts_of(throughput: dict[str, list[float]]) -> dict[tuple[str, str], Verdict]:
    found = compared(measured({"throughput": throughput}, grid().pairs(CANDIDATES)))
    judge(c.estimate for c in found)
    return {(c.numerator.key, c.denominator.key): c.estimate.verdict for c in found}


def run(
    seed: int, rounds: int, speed: dict[str, float], noise: float = TRIAL_NOISE
) -> dict[tuple[str, str], Verdict]:
    return verdicts_of(values(random.Random(seed), CANDIDATES, rounds, speed, noise))


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_against_a_reports_no_difference(rounds):
    verdicts = [c for seed in range(RUNS) for c in run(seed, rounds, {}).values()]
    assert len(verdicts) == 20 * 18
    assert verdicts.count(Verdict.NO_DIFFERENCE) / len(verdicts) >= 0.95


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.slow
def test_a_planted_difference_of_ten_percent_is_found(rounds):
    faster = {c.key: 110.0 for c in CANDIDATES if c.config == "ft" and c.variant == "loader-thread"}
    found = [
        c
        for seed in range(RUNS)
        for (a, b), c in run(seed, rounds, faster).items()
        if a in faster and b not in faster
    ]
    assert len(found) >= 100
    assert found.count(Verdict.ABOVE) / len(found) >= 0.90
    assert Verdict.BELOW not in found
    # And the other way round, where it is a loss.
    slower = dict.fromkeys(faster, 100 / 1.1)
    found = [
        c
        for seed in range(RUNS)
        for (a, b), c in run(seed, rounds, slower).items()
        if a in slower and b not in slower
    ]
    assert found.count(Verdict.BELOW) / len(found) >= 0.90 and Verdict.ABOVE not in found


def test_noise_that_differs_between_candidates_deceives_nobody():
    """Processes twice as noisy as threads, as where they have more to start:
    variances are weighed, not pooled.
    """
    wrong = total = 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        verdicts = verdicts_of(
            {
                c.key: [
                    math.exp(rng.gauss(0, 0.04 if "process" in c.variant else 0.01))
                    for _ in range(4)
                ]
                for c in CANDIDATES
            }
        )
        wrong += sum(c != Verdict.NO_DIFFERENCE for c in verdicts.values())
        total += len(verdicts)
    assert wrong / total <= 0.05


def test_a_noisy_machine_finds_less_and_invents_nothing():
    faster = {c.key: 110.0 for c in CANDIDATES if c.config == "ft" and c.variant == "loader-thread"}
    for seed in range(5):
        comparisons = run(seed, 4, faster, noise=0.2).values()
        assert sum(c != Verdict.NO_DIFFERENCE for c in comparisons) / len(comparisons) <= 0.1
