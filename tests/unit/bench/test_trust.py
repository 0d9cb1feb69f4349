"""Can the verdicts be trusted? Simulated runs whose truth is known, through all of the statistics.

The same with real trials on the machine at hand: `python -m bench.trust`; its figures are in docs/method.md.
"""

from __future__ import annotations

import math
import random

import pytest

from bench import statistics
from bench.contestants import CONFIGS, duplicates
from bench.grid import Grid
from bench.statistics import NO_DIFFERENCE, ratio

from tests.unit.bench.simulated import TRIAL_NOISE, values

RUNS = 20
CONTESTANTS = [c for _, c in Grid().candidates(CONFIGS, [1, 2], quick=False)]
# What `./twins bench` plans for, and somewhat more.
ROUNDS = (4, 6)


def run(seed: int, rounds: int, speed: dict[str, float], noise: float = TRIAL_NOISE) -> dict[tuple[str, str], dict]:
    """The comparisons of one simulated run of the main job."""
    measured = {"throughput": values(random.Random(seed), CONTESTANTS, rounds, speed, noise)}
    analysis = statistics.analyse(measured, Grid().pairs(CONTESTANTS), duplicates(CONTESTANTS))
    return {(c["numerator"], c["denominator"]): c for c in analysis["comparisons"]}


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_against_a_reports_no_difference(rounds):
    verdicts = [c["verdict"] for seed in range(RUNS) for c in run(seed, rounds, {}).values()]
    assert len(verdicts) == 20 * 18
    assert verdicts.count(NO_DIFFERENCE) / len(verdicts) >= 0.95


@pytest.mark.parametrize("rounds", ROUNDS)
def test_a_planted_difference_of_ten_percent_is_found(rounds):
    faster = {c.key: 110.0 for c in CONTESTANTS if c.config == "ft" and c.variant == "loader-thread"}
    found = [c["verdict"] for seed in range(RUNS) for (a, b), c in run(seed, rounds, faster).items()
             if a in faster and b not in faster]
    assert len(found) >= 100
    assert found.count("faster") / len(found) >= 0.90
    assert "slower" not in found
    # And the other way round, where it is a loss.
    slower = dict.fromkeys(faster, 100 / 1.1)
    found = [c["verdict"] for seed in range(RUNS) for (a, b), c in run(seed, rounds, slower).items()
             if a in slower and b not in slower]
    assert found.count("slower") / len(found) >= 0.90 and "faster" not in found


def test_noise_that_differs_between_contestants_deceives_nobody():
    """Processes twice as noisy as threads, as where they have more to start: variances are weighed, not pooled."""
    wrong = total = 0
    for seed in range(RUNS):
        rng = random.Random(seed)
        measured = {"throughput": {c.key: [math.exp(rng.gauss(0, 0.04 if "process" in c.variant else 0.01))
                                           for _ in range(4)] for c in CONTESTANTS}}
        analysis = statistics.analyse(measured, Grid().pairs(CONTESTANTS), duplicates(CONTESTANTS))
        wrong += sum(c["verdict"] != NO_DIFFERENCE for c in analysis["comparisons"])
        total += len(analysis["comparisons"])
    assert wrong / total <= 0.05


def test_a_noisy_machine_finds_less_and_invents_nothing():
    faster = {c.key: 110.0 for c in CONTESTANTS if c.config == "ft" and c.variant == "loader-thread"}
    for seed in range(5):
        comparisons = run(seed, 4, faster, noise=0.2).values()
        assert sum(c["verdict"] != NO_DIFFERENCE for c in comparisons) / len(comparisons) <= 0.1


def coverage(rounds: int, runs: int, by_bootstrap: bool) -> float:
    """How often the interval of a ratio holds the truth."""
    rng = random.Random(rounds)
    covered = 0
    for _ in range(runs):
        a = [math.exp(rng.gauss(0, 0.03)) for _ in range(rounds)]
        r = ratio(a, [1.0] * rounds)
        low, high = (r.bootstrap or bootstrap(a)) if by_bootstrap else (r.low, r.high)
        covered += low <= 1 <= high
    return covered / runs


def bootstrap(values_: list[float]) -> tuple[float, float]:
    return statistics._bootstrap([math.log(v) for v in values_], 0.95)


def test_why_intervals_of_few_rounds_are_not_bootstrapped():
    """With 4 rounds there is too little to draw from: the interval misses the truth far more often than it says."""
    assert (few := coverage(4, 150, by_bootstrap=True)) < 0.90
    assert coverage(4, 1000, by_bootstrap=False) > 0.93
    # Later it comes nearer, so that it may add doubt to Student's t, and never certainty.
    assert coverage(2 * statistics.BOOTSTRAP_ROUNDS, 100, by_bootstrap=True) > few
