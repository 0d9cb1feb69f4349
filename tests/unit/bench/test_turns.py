"""What the turns of a trial predict of its figure's variance, and the intervals that use it."""

import math
import random
from statistics import fmean, variance

import pytest
from scipy import stats

from ftbench.plan.candidates import Pair
from ftbench.stats.comparisons import compared, level
from ftbench.stats.statistics import ratio
from ftbench.stats.turns import ENOUGH_TURNS, UNSEEN, Predicted, of_trial, predict, too_few
from tests.unit.bench import simulated

A, B = "ft/loader-thread/1", "gil/loader-thread/1"


def test_an_interval_is_the_wider_of_both_levels():
    a, b = [100.0, 120.0, 90.0], [80.0, 83.0, 95.0]
    plain = ratio(a, b)
    # The rounds differ more than their turns say.
    assert ratio(a, b, Predicted(1e-4, 27)) == plain
    # Rounds that happen to agree do not make a ratio certain.
    agreeing = ratio([2.0, 2.0, 2.0], [1.0, 1.0, 1.0], Predicted(0.01, 27))
    low, high = stats.t.interval(0.95, 27, loc=math.log(2), scale=0.1 / math.sqrt(3))
    assert (agreeing.low, agreeing.high) == (
        pytest.approx(math.exp(low)),
        pytest.approx(math.exp(high)),
    )
    assert agreeing.ratio == 2 and 0 < agreeing.p < 0.001


@pytest.mark.parametrize("together", [True, False], ids=["same-cycles", "own-cycles"])
@pytest.mark.parametrize("conditions", [1, 2])
@pytest.mark.parametrize("number", [4, 10])
@pytest.mark.slow(cases=1)
def test_the_variance_of_a_ratio_is_predicted_from_the_turns(number, conditions, together):
    """In each cycle, both candidates' turns are slowed alike; and each turn by itself."""
    rng = random.Random(number)

    def pair() -> list[list[list[float]]]:
        shared = [rng.gauss(0, 0.1) for _ in range(number + 1)]
        return [
            [[math.exp(s + rng.gauss(0, 0.05)) for s in shared[:length]] for _ in range(conditions)]
            for length in (number, number if together else number + 1)
        ]

    def figure(series: list[list[float]]) -> float:
        first, *second = map(fmean, series)
        return math.log(first / math.prod(second))

    pairs = [pair() for _ in range(2000)]
    true = variance(figure(a) - figure(b) for a, b in pairs)
    predicted = predict([a for a, _ in pairs], [b for _, b in pairs])
    # Where the cycles are known to be the same, what slows both cancels. Else the prediction is on
    # the safe side.
    assert 0.85 <= predicted.variance / true <= (1.15 if together or conditions == 2 else 20)
    assert predicted.degrees == 2000 * (number - 1)


def test_trials_of_few_turns_predict_no_variance():
    enough = [1.0, 1.1, 1.2, 1.3]
    for one in [[enough[:1]]], [[]]:
        assert predict(one) is None
        assert predict([[enough]], one).variance == 0
    assert predict([[enough[:3]]]) == (0, 1, UNSEEN)
    # A candidate beside itself: what they share cancels.
    assert predict([[enough]], [[enough]]).variance == 0
    assert predict([[enough, enough]]).variance == 0 < predict([[enough]]).variance


@pytest.mark.parametrize(
    "trials, fewest", [([14, 14], 28), ([14, 15], None), ([4, 4, 4], 12), ([1, 1, 1], None)]
)
def test_intervals_allow_for_rare_long_turns_where_there_are_too_few_turns_for_them(trials, fewest):
    series = [[[1.0, 1.1] * (number // 2) + [1.05] * (number % 2)] for number in trials]
    for candidates in (series,), (series, series):
        assert too_few(*candidates) == fewest
        assert getattr(predict(*candidates), "unseen", 0) == (UNSEEN if fewest else 0)


def test_an_interval_is_wider_by_what_no_turn_showed():
    a, b = [100.0, 120.0, 90.0], [80.0, 83.0, 95.0]
    plain, wider = ratio(a, b), ratio(a, b, Predicted(0.0, 1, math.log(1.1)))
    assert (wider.ratio, wider.low, wider.high) == pytest.approx(
        (plain.ratio, plain.low / 1.1, plain.high * 1.1)
    )
    assert wider.resolution == pytest.approx(plain.resolution * 1.1) and plain.p < wider.p < 1
    # A difference that the rare turns alone could make is no difference.
    assert ratio([1.09] * 3, [1.0] * 3, Predicted(0.0, 1, math.log(1.1))).p == 1


def test_one_turn_in_ten_is_missing_from_one_run_in_twenty():
    assert 0.9**ENOUGH_TURNS < 0.05 < 0.9 ** (ENOUGH_TURNS - 1)
    assert UNSEEN == pytest.approx(math.log(fmean([1.0] * 9 + [2.0])))


def test_turns_that_do_not_count_predict_nothing():
    trial = simulated.trial(simulated.blank().scenarios[0].candidates[0], {"throughput": 1.0})
    trial.turn_seconds, trial.turns_left_out = [1.0, 9.0, 2.0, 3.0, 4.0], [1]
    assert of_trial(trial, "throughput") == [[1.0, 2.0, 3.0, 4.0]]
    assert of_trial(trial, "memory_mib") == []


def test_throughput_and_ratios_of_turns_have_such_an_interval_and_memory_has_not():
    values = {"throughput": {A: [100.0, 120.0, 90.0], B: [80.0, 97.0, 71.0]}}
    values["memory_mib"] = values["scaling"] = values["throughput"]
    scenario = simulated.measured(values, [Pair("chosen", A, B)])
    rng = random.Random(1)
    for one in scenario.rounds:
        for trial in one.trials:
            trial.turn_seconds = [rng.uniform(0.1, 0.9) for _ in range(6)]
            trial.condition_seconds = {"scaling": [trial.turn_seconds, trial.turn_seconds[::-1]]}
    speed, memory, scaling = (c.estimate for c in compared(scenario))
    turns = [[[trial.turn_seconds] for trial in scenario.trials_of(key)] for key in (A, B)]
    both = [[[seconds, seconds[::-1]] for (seconds,) in trials] for trials in turns]
    a, b = values["throughput"].values()
    for comparison, like in (
        (speed, ratio(a, b, predict(*turns))),
        (scaling, ratio(a, b, predict(*both))),
        (level(scenario, A, "scaling"), ratio(a, [1.0] * 3, predict(both[0]))),
        (memory, ratio(a, b)),
    ):
        assert (comparison.low, comparison.high) == (
            pytest.approx(like.low),
            pytest.approx(like.high),
        )
    assert speed.low < memory.low < scaling.low + 1
