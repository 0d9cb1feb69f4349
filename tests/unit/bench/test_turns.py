"""What the turns of a trial let expect of its figure's variance, and the intervals that use it."""

import math
import random
from statistics import fmean, variance

import pytest
from scipy import stats

from ftbench.measure.epochs import typical
from ftbench.measure.neighbours import factor
from ftbench.plan.candidates import Pair
from ftbench.stats.comparisons import compared, level
from ftbench.stats.statistics import EXPECTED_ROUNDS, ratio
from ftbench.stats.turns import variance_of_factor, variance_of_round, variance_of_typical
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


@pytest.mark.parametrize("figure, estimated", [(typical, variance_of_typical), (factor, variance_of_factor)])
@pytest.mark.parametrize("disturbed", [0.0, 0.3])
@pytest.mark.parametrize("number", [6, 7, 12])
def test_the_variance_of_a_figure_is_estimated_from_its_turns(number, disturbed, figure, estimated):
    rng = random.Random(number)

    def turns() -> list[float]:
        load = (1 + rng.random() * (rng.random() < disturbed) for _ in range(number))
        return [math.exp(rng.gauss(0, 0.05)) * slower for slower in load]

    trials = [turns() for _ in range(1500)]
    true = variance(math.log(figure(each)) for each in trials)
    assert 0.75 <= fmean(map(estimated, trials)) / true <= 1.3


def test_trials_of_few_turns_let_expect_nothing():
    enough = [1.0, 1.1, 1.2, 1.3]
    for metric in ("throughput", "scaling"):
        assert variance_of_round(metric, [enough[:3]] * 4) is None
        assert variance_of_round(metric, [enough], [[]]) is None
        assert variance_of_round(metric, [enough], [enough]) == pytest.approx(2 * variance_of_round(metric, [enough]))


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("rounds", [3, 5])
@pytest.mark.parametrize(
    "metric, figure, vary, truths",
    [
        ("throughput", typical, 0.03 / math.sqrt(2), (1.3, 1.0)),
        ("scaling", factor, 0.02, (1.0, 1.0)),  # A against A
        ("scaling", factor, 0.02, (1.3,)),
    ],
)
def test_intervals_hold_the_truth_and_are_narrower(rounds, metric, figure, vary, truths):
    """Processes that differ by 2% (two of them by 3%), and in each ten turns that differ by 8% (12%)."""
    rng = random.Random(rounds)
    held, widths, plain = 0, [], []

    def process(value: float) -> list[float]:
        own = value * math.exp(rng.gauss(0, vary))
        return [own * math.exp(rng.gauss(0, 0.12 / math.sqrt(2))) for _ in range(10)]

    for _ in range(600):
        trials = [[process(value) for _ in range(rounds)] for value in truths]
        a, b = [*([figure(each) for each in of] for of in trials), [1.0] * rounds][:2]
        r, other = ratio(a, b, variance_of_round(metric, *trials)), ratio(a, b)
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
            trial.turn_ratios = {"scaling": trial.turn_seconds}
    speed, memory, scaling = compared(scenario)
    turns = [[trial.turn_seconds for trial in scenario.trials_of(key)] for key in (A, B)]
    a, b = values["throughput"].values()
    for found, expected in (
        (speed, ratio(a, b, variance_of_round("throughput", *turns))),
        (scaling, ratio(a, b, variance_of_round("scaling", *turns))),
        (level(scenario, A, "scaling"), ratio(a, [1.0] * 3, variance_of_round("scaling", turns[0]))),
        (memory, ratio(a, b)),
    ):
        assert (found.low, found.high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert speed.low > memory.low < scaling.low
