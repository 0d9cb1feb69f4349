"""What the turns of a trial let expect of its figure's variance, and the intervals that use it."""

import math
import random
from statistics import fmean, variance

import pytest
from scipy import stats

from ftbench.measure.epochs import typical
from ftbench.plan.candidates import Pair
from ftbench.stats.comparisons import compared, level
from ftbench.stats.statistics import EXPECTED_ROUNDS, ratio
from ftbench.stats.turns import variance_of_round, variance_of_typical
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
@pytest.mark.parametrize("number", [4, 5, 6, 7, 12])
def test_the_variance_of_a_figure_is_estimated_from_its_turns(number, disturbed):
    rng = random.Random(number)

    def turns() -> list[float]:
        load = (1 + rng.random() * (rng.random() < disturbed) for _ in range(number))
        return [math.exp(rng.gauss(0, 0.05)) * slower for slower in load]

    trials = [turns() for _ in range(1500)]
    true = variance(math.log(typical(each)) for each in trials)
    assert 0.75 <= fmean(map(variance_of_typical, trials)) / true <= 1.3


def test_trials_of_few_turns_let_expect_nothing():
    enough = [1.0, 1.1, 1.2, 1.3]
    for few in [[enough[:3]]], [[enough, enough[:3]]], [[[]]], [[]], [[enough], []]:
        assert variance_of_round(few) is None
        assert variance_of_round([[enough]], few) is None
    for trial in [enough], [enough, enough]:
        assert variance_of_round([trial], [trial]) == pytest.approx(2 * variance_of_round([trial]))


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("rounds", [3, 5])
@pytest.mark.parametrize(
    "conditions, vary, truths",
    [
        (1, 0.03 / math.sqrt(2), (1.3, 1.0)),
        (2, 0.02, (1.0, 1.0)),  # A against A
        (2, 0.02, (1.3,)),
    ],
)
def test_intervals_hold_the_truth_and_are_narrower(rounds, conditions, vary, truths):
    """Processes that differ by 2% (two of them by 3%), and in each ten turns of each condition that differ by 8%."""
    rng = random.Random(rounds)
    held, widths, plain = 0, [], []

    def process(value: float) -> list[list[float]]:
        levels = [value * math.exp(rng.gauss(0, vary)), 1.0][:conditions]
        return [[level * math.exp(rng.gauss(0, 0.12 / math.sqrt(2))) for _ in range(10)] for level in levels]

    def figure(trial: list[list[float]]) -> float:
        first, *second = map(typical, trial)
        return first / math.prod(second)

    for _ in range(600):
        trials = [[process(value) for _ in range(rounds)] for value in truths]
        a, b = [*([figure(each) for each in of] for of in trials), [1.0] * rounds][:2]
        r, other = ratio(a, b, variance_of_round(*trials)), ratio(a, b)
        held += r.low <= truths[0] <= r.high
        widths.append(math.log(r.high / r.low))
        plain.append(math.log(other.high / other.low))
    assert held / 600 >= (0.94 if truths == (1.0, 1.0) else 0.93)
    assert fmean(widths) < fmean(plain) * (0.7 if rounds == 3 else 0.95)


def test_throughput_and_ratios_of_turns_have_such_an_interval_and_memory_has_not():
    values = {"throughput": {A: [100.0, 120.0, 90.0], B: [80.0, 83.0, 95.0]}}
    values["memory_mib"] = values["scaling"] = values["throughput"]
    scenario = simulated.measured(values, [Pair("chosen", A, B)])
    rng = random.Random(1)
    for one in scenario.rounds:
        for trial in one.trials:
            trial.turn_seconds = [rng.uniform(0.3, 0.35) for _ in range(6)]
            trial.condition_seconds = {"scaling": [trial.turn_seconds, trial.turn_seconds]}
    speed, memory, scaling = compared(scenario)
    turns = [[[trial.turn_seconds] for trial in scenario.trials_of(key)] for key in (A, B)]
    both = [[2 * trial for trial in of] for of in turns]
    a, b = values["throughput"].values()
    for found, expected in (
        (speed, ratio(a, b, variance_of_round(*turns))),
        (scaling, ratio(a, b, variance_of_round(*both))),
        (level(scenario, A, "scaling"), ratio(a, [1.0] * 3, variance_of_round(both[0]))),
        (memory, ratio(a, b)),
    ):
        assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert speed.low > memory.low < scaling.low
