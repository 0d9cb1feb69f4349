"""Can the verdicts be trusted? Simulated runs whose truth is known, through all of the statistics.

The same with real trials: `python -m evaluation.trust.measure`, whose figures are in docs/method.md.
"""

from __future__ import annotations

import math
import random

import pytest

from ftbench.plan.candidates import CONFIGS
from ftbench.plan.comparisons import grid
from ftbench.stats import statistics
from ftbench.stats.statistics import NO_DIFFERENCE
from tests.unit.bench.simulated import TRIAL_NOISE, values

RUNS = 20
CANDIDATES = [c for _, c in grid().ranked(CONFIGS, [1, 2], quick=False)]
# Where a run may end for its precision, and somewhat more.
ROUNDS = (5, 8)


def run(seed: int, rounds: int, speed: dict[str, float], noise: float = TRIAL_NOISE) -> dict[tuple[str, str], dict]:
    """The comparisons of one simulated run of the main job."""
    measured = {"throughput": values(random.Random(seed), CANDIDATES, rounds, speed, noise)}
    analysis = statistics.analyse(measured, grid().pairs(CANDIDATES))
    return {(c["numerator"], c["denominator"]): c for c in analysis["comparisons"]}


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_against_a_reports_no_difference(rounds):
    verdicts = [c["verdict"] for seed in range(RUNS) for c in run(seed, rounds, {}).values()]
    assert len(verdicts) == 20 * 18
    assert verdicts.count(NO_DIFFERENCE) / len(verdicts) >= 0.95


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_planted_difference_of_ten_percent_is_found(rounds):
    faster = {c.key: 110.0 for c in CANDIDATES if c.config == "ft" and c.variant == "loader-thread"}
    found = [
        c["verdict"]
        for seed in range(RUNS)
        for (a, b), c in run(seed, rounds, faster).items()
        if a in faster and b not in faster
    ]
    assert len(found) >= 100
    assert found.count("faster") / len(found) >= 0.90
    assert "slower" not in found
    # And the other way round, where it is a loss.
    slower = dict.fromkeys(faster, 100 / 1.1)
    found = [
        c["verdict"]
        for seed in range(RUNS)
        for (a, b), c in run(seed, rounds, slower).items()
        if a in slower and b not in slower
    ]
    assert found.count("slower") / len(found) >= 0.90 and "faster" not in found


def test_noise_that_differs_between_candidates_deceives_nobody():
    """Processes twice as noisy as threads, as where they have more to start: variances are weighed, not pooled."""
    wrong = total = 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        measured = {
            "throughput": {
                c.key: [math.exp(rng.gauss(0, 0.04 if "process" in c.variant else 0.01)) for _ in range(4)]
                for c in CANDIDATES
            }
        }
        analysis = statistics.analyse(measured, grid().pairs(CANDIDATES))
        wrong += sum(c["verdict"] != NO_DIFFERENCE for c in analysis["comparisons"])
        total += len(analysis["comparisons"])
    assert wrong / total <= 0.05


def test_a_noisy_machine_finds_less_and_invents_nothing():
    faster = {c.key: 110.0 for c in CANDIDATES if c.config == "ft" and c.variant == "loader-thread"}
    for seed in range(5):
        comparisons = run(seed, 4, faster, noise=0.2).values()
        assert sum(c["verdict"] != NO_DIFFERENCE for c in comparisons) / len(comparisons) <= 0.1
