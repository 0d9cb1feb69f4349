"""What the turns of a trial let expect of its figure's variance, and the intervals that use it."""

import math
import random
from statistics import fmean, variance

import pytest
from scipy import stats

from ftbench.measure.epochs import typical
from ftbench.plan.candidates import Pair
from ftbench.stats.comparisons import compared
from ftbench.stats.statistics import EXPECTED_ROUNDS, ratio
from ftbench.stats.turns import variance_of_ratio, variance_of_typical
from tests.unit.bench import simulated

A, B = "ft/loader-thread/1", "gil/loader-thread/1"


def test_an_interval_of_known_values():
    a, b = [100.0, 120.0, 90.0], [80.0, 83.0, 95.0]
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    spread = (2 * variance(logs) + EXPECTED_ROUNDS * 0.01) / (2 + EXPECTED_ROUNDS)
    low, high = stats.t.interval(0.95, 2 + EXPECTED_ROUNDS, loc=fmean(logs), scale=math.sqrt(spread / 3))
    r = ratio(a, b, 0.01)
    assert (r.low, r.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))
    # A ratio itself is that of the rounds.
    assert r.ratio == ratio(a, b).ratio
    # Rounds that happen to agree do not make it certain.
    agreeing = ratio([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], 0.01)
    assert agreeing.low < 1.9 and agreeing.high > 2.1


@pytest.mark.parametrize("disturbed", [0.0, 0.3])
@pytest.mark.parametrize("number", [6, 7, 12])
def test_the_variance_of_a_figure_is_estimated_from_its_turns(number, disturbed):
    rng = random.Random(number)

    def turns() -> list[float]:
        load = (1 + rng.random() * (rng.random() < disturbed) for _ in range(number))
        return [math.exp(rng.gauss(0, 0.05)) * slower for slower in load]

    trials = [turns() for _ in range(1500)]
    true = variance(math.log(typical(each)) for each in trials)
    assert 0.75 <= fmean(map(variance_of_typical, trials)) / true <= 1.3


def test_trials_of_few_turns_let_expect_nothing():
    assert variance_of_ratio([[1.0, 1.1, 1.2]] * 4) is None
    assert variance_of_ratio([[1.0, 1.1, 1.2, 1.3], []]) is None
    assert variance_of_ratio([[1.0, 1.1, 1.2, 1.3]] * 4) > 0


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("rounds", [3, 5])
def test_intervals_hold_the_truth_and_are_narrower(rounds):
    """Processes that differ by 3%, and in each ten turns that differ by 12%."""
    rng = random.Random(rounds)
    held, widths, plain = 0, [], []

    def process(value: float) -> list[float]:
        own = value * math.exp(rng.gauss(0, 0.03 / math.sqrt(2)))
        return [own * math.exp(rng.gauss(0, 0.12 / math.sqrt(2))) for _ in range(10)]

    for _ in range(600):
        a, b = ([process(value) for _ in range(rounds)] for value in (1.3, 1.0))
        figures = [[typical(each) for each in trials] for trials in (a, b)]
        r, other = ratio(*figures, variance_of_ratio([*a, *b])), ratio(*figures)
        held += r.low <= 1.3 <= r.high
        widths.append(math.log(r.high / r.low))
        plain.append(math.log(other.high / other.low))
    assert held / 600 >= 0.93
    assert fmean(widths) < fmean(plain) * (0.75 if rounds == 3 else 0.95)


def test_throughput_has_such_an_interval_and_memory_has_not():
    values = {"throughput": {A: [100.0, 120.0, 90.0], B: [80.0, 83.0, 95.0]}}
    values["memory_mib"] = values["throughput"]
    scenario = simulated.measured(values, [Pair("chosen", A, B)])
    rng = random.Random(1)
    for one in scenario.rounds:
        for trial in one.trials:
            trial.turn_seconds = [rng.uniform(0.3, 0.35) for _ in range(6)]
    speed, memory = compared(scenario)
    turns = [trial.turn_seconds for one in scenario.rounds for trial in one.trials]
    expected = ratio(*values["throughput"].values(), variance_of_ratio(turns))
    assert (speed.low, speed.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    plain = ratio(*values["throughput"].values())
    assert (memory.low, memory.high) == (plain.low, plain.high) and speed.low > memory.low
