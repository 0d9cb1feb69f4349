"""The statistics: known values, coverage on simulated noise, and what verdicts need."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from ftbench import contestants, statistics
from ftbench.contestants import Target
from ftbench.grid import Grid
from ftbench.metrics import METRICS
from ftbench.moderation import moderate
from ftbench.statistics import LEAST_FLOOR, NO_DIFFERENCE, TOO_FEW, Ratio, noise_floor, ratio, reached, verdict

THROUGHPUT = METRICS["throughput"]


def test_ratio_of_known_values():
    r = ratio([2.0, 8.0, 4.0], [1.0, 1.0, 1.0])
    assert r.mean == pytest.approx(4.0)
    logs = [math.log(2), math.log(8), math.log(4)]
    low, high = stats.t.interval(0.95, 2, loc=math.log(4), scale=stats.sem(logs))
    assert (r.low, r.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))
    assert r.n == 3


def test_ratio_is_symmetric():
    a, b = [100.0, 120.0, 90.0, 111.0], [80.0, 83.0, 95.0, 70.0]
    r, inverse = ratio(a, b), ratio(b, a)
    assert r.mean == pytest.approx(1 / inverse.mean)
    assert r.low == pytest.approx(1 / inverse.high)


def test_only_the_pairing_within_rounds_counts():
    # A machine whose speed changes tenfold from round to round, and a ratio that does not.
    slowness = [1.0, 10.0, 3.0, 7.0]
    r = ratio([150 / s for s in slowness], [100 / s for s in slowness])
    assert r.low == pytest.approx(1.5) and r.high == pytest.approx(1.5)


def test_one_round_has_no_interval():
    assert ratio([3.0], [2.0]) == Ratio(1.5, None, None, 1)
    assert ratio([3.0], [2.0]).p is None


@pytest.mark.parametrize("a, b", [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_ratio_refuses_what_has_none(a, b):
    with pytest.raises(ValueError):
        ratio(a, b)


@pytest.mark.parametrize("rounds", [3, 6])
def test_interval_covers_the_true_ratio_as_often_as_it_says(rounds):
    rng = random.Random(7)
    runs = 2000
    covered = 0
    for _ in range(runs):
        a = [1.3 * math.exp(rng.gauss(0, 0.05)) for _ in range(rounds)]
        b = [math.exp(rng.gauss(0, 0.05)) for _ in range(rounds)]
        r = ratio(a, b)
        covered += r.low <= 1.3 <= r.high
    # Four standard errors of a 95% proportion over 2000 runs are 1.9%.
    assert 0.93 <= covered / runs <= 0.97


def test_p_values_are_those_of_the_t_test():
    a, b = [100.0, 120.0, 90.0, 111.0], [80.0, 83.0, 95.0, 70.0]
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    assert ratio(a, b).p == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    assert ratio([1.0, 2.0], [1.0, 2.0]).p == 1 and ratio([2.0, 4.0], [1.0, 2.0]).p == 0


def test_the_bootstrap_stands_beside_from_ten_rounds_on():
    rng = random.Random(3)
    a = [1.2 * math.exp(rng.gauss(0, 0.03)) for _ in range(10)]
    assert ratio(a[:9], [1.0] * 9).bootstrap is None
    r = ratio(a, [1.0] * 10)
    low, high = r.bootstrap
    # It does not know that the noise is normal and does not need to: about the same, and the same each time.
    assert low == pytest.approx(r.low, rel=0.02) and high == pytest.approx(r.high, rel=0.02)
    assert ratio(a, [1.0] * 10) == r
    assert ratio([2.0] * 10, [1.0] * 10).bootstrap is None  # rounds without any spread
    # It has a say: an interval that holds 1 by either way is no difference.
    assert verdict(Ratio(1.2, 1.1, 1.3, 10, 0.001, (0.99, 1.3)), 1.05, THROUGHPUT) == NO_DIFFERENCE
    assert verdict(Ratio(1.2, 1.1, 1.3, 10, 0.001, (1.05, 1.3)), 1.05, THROUGHPUT) == "faster"


def test_variances_that_differ_by_chance_alone_are_taken_together():
    rng = random.Random(5)
    logs = [[rng.gauss(0, 0.04) for _ in range(3)] for _ in range(12)]
    spreads = moderate(logs, contestants=14)
    for of, freedom in spreads:
        assert freedom > 8 and 0.025 < math.sqrt(of) < 0.06
    # One comparison that is really wilder keeps most of its own variance.
    wild = [*logs, [-1.0, 1.0, 0.1]]
    assert moderate(wild, 14)[-1][0] > 0.2
    assert moderate(logs[:4], 14) == [None] * 4  # too few to tell
    assert moderate([each[:1] for each in logs], 14) == [None] * 12
    assert moderate([[0.1, 0.1, 0.1]] * 6, 14) == [None] * 6
    assert moderate([], 0) == []


def test_what_variances_have_in_common_is_smyths_fit():
    """Section 6.2 of the paper step by step, for variances of two degrees of freedom."""
    from scipy.special import polygamma, psi

    from ftbench.moderation import _inverse_trigamma, _prior

    variances = [0.001, 0.02, 0.3, 0.004, 1.0, 0.0005]
    logs = [math.log(v) - psi(1.0) for v in variances]
    mean = sum(logs) / 6
    excess = sum((x - mean) ** 2 for x in logs) / 5 - polygamma(1, 1.0)
    prior, freedom = _prior(variances, 2)
    assert polygamma(1, freedom / 2) == pytest.approx(excess)
    assert prior == pytest.approx(math.exp(mean + psi(freedom / 2) - math.log(freedom / 2)))
    for value in (1e-6, 0.01, 1.0, 50.0, 1e7):
        assert polygamma(1, _inverse_trigamma(value)) == pytest.approx(value, rel=1e-5)


def test_p_values_are_adjusted_over_a_whole_run():
    p = [0.001, 0.02, None, 0.03, 0.5]
    q = statistics.adjusted(p)
    assert q == [pytest.approx(0.004), pytest.approx(0.04), None, pytest.approx(0.04), pytest.approx(0.5)]
    assert statistics.adjusted([]) == [] and statistics.adjusted([None]) == [None]

    def analysis(*p_values: float, n: int = 3) -> dict:
        return {
            "comparisons": [
                {
                    "mean": 1.5,
                    "low": 1.2,
                    "high": 1.9,
                    "n": n,
                    "p": p,
                    "bootstrap": None,
                    "noise_floor": 1.05,
                    "metric": "throughput",
                }
                for p in p_values
            ]
        }

    alone, others = analysis(0.02), analysis(*[0.9] * 9)
    statistics.adjust([alone])
    assert alone["comparisons"][0]["verdict"] == "faster"
    # Among ten, one of p = 0.02 is what chance gives.
    statistics.adjust([alone, others])
    assert alone["comparisons"][0]["verdict"] == NO_DIFFERENCE and alone["comparisons"][0]["q"] == pytest.approx(0.2)
    too_few = analysis(0.0001, n=2)
    statistics.adjust([alone, too_few])
    assert too_few["comparisons"][0]["verdict"] == TOO_FEW and alone["comparisons"][0]["verdict"] == "faster"


def test_percentiles_are_taken_within_rounds():
    rounds = [
        {"step": {"unit": "ms", "values": [float(v) for v in range(101)]}},
        {"step": {"unit": "ms", "values": [10.0]}},
        {},
    ]
    found = statistics.distributions(rounds)
    assert found["step"]["unit"] == "ms" and found["step"]["values"] == 102
    assert found["step"]["percentiles"]["99"] == {"median": 54.5, "min": 10, "max": 99}
    assert statistics.percentile([1.0, 2.0], 50) == 1.5 and statistics.percentile([4.0], 99) == 4


def test_a_case_with_its_own_noise_is_held_against_it():
    values = {
        "throughput": {
            "a@x": [1.0, 1.0, 1.0],
            "a@x/again": [1.5, 1.4, 1.6],
            "b@x": [1.0, 1.1, 1.0],
            "a@y": [1.0, 1.0, 1.0],
            "a@y/again": [1.01, 1.0, 1.01],
            "b@y": [1.2, 1.21, 1.2],
        }
    }
    pair = contestants.Pair
    found = statistics.analyse(
        values,
        [pair("chosen", "x", "b@x", "a@x"), pair("chosen", "y", "b@y", "a@y")],
        [pair("noise", "x", "a@x/again", "a@x"), pair("noise", "y", "a@y/again", "a@y")],
        {key: key[2] for key in values["throughput"]},
    )
    assert [round(c["noise_floor"], 2) for c in found["comparisons"]] == [1.5, 1.01]
    assert [c["verdict"] for c in found["comparisons"]] == [NO_DIFFERENCE, "faster"]
    assert found["noise_floor"]["throughput"] == pytest.approx(1.5, abs=0.01)


def test_equal_contestants_show_no_difference_and_different_ones_do():
    rng = random.Random(11)

    def runs_with_a_difference(effect: float) -> float:
        declared = 0
        for _ in range(500):

            def trial(speed: float = 1.0) -> list[float]:
                return [speed * math.exp(rng.gauss(0, 0.03)) for _ in range(5)]

            floor = noise_floor([ratio(trial(), trial()) for _ in range(2)])
            declared += verdict(ratio(trial(effect), trial()), floor, THROUGHPUT) == "faster"
            if effect == 1:
                declared += verdict(ratio(trial(), trial()), floor, THROUGHPUT) == "slower"
        return declared / 500

    assert runs_with_a_difference(1.0) < 0.05
    assert runs_with_a_difference(1.5) > 0.99


def test_noise_floor_is_how_far_the_pair_that_is_farthest_from_1_came_out():
    assert noise_floor([Ratio(1.01, 0.98, 1.04, 3), Ratio(0.8, 0.70, 1.1, 3)]) == pytest.approx(1.25)
    assert noise_floor([Ratio(1.3, 0.98, 1.6, 3)]) == 1.3
    assert noise_floor([Ratio(1.0004, 1.0003, 1.0005, 3)]) == LEAST_FLOOR
    assert noise_floor([Ratio(1.0, None, None, 1)]) is None
    assert noise_floor([]) is None


@pytest.mark.parametrize(
    "r, floor, expected",
    [
        (Ratio(1.5, 1.4, 1.6, 3), 1.05, "faster"),
        (Ratio(0.5, 0.4, 0.6, 3), 1.05, "slower"),
        (Ratio(1.5, 0.9, 2.5, 3), 1.05, NO_DIFFERENCE),  # the interval holds 1
        (Ratio(1.04, 1.03, 1.05, 9), 1.05, NO_DIFFERENCE),  # within the noise
        (Ratio(0.96, 0.955, 0.965, 9), 1.05, NO_DIFFERENCE),
        (Ratio(1.5, 1.4, 1.6, 2), 1.05, TOO_FEW),
        (Ratio(1.5, 1.4, 1.6, 3), None, TOO_FEW),
    ],
)
def test_verdict(r, floor, expected):
    assert verdict(r, floor, THROUGHPUT) == expected


@pytest.mark.parametrize(
    "r, target, expected",
    [
        (Ratio(2.0, 1.95, 2.1, 5), Target("least", 1.9), "met"),
        (Ratio(2.0, 1.8, 2.2, 5), Target("least", 1.9), "unclear"),
        (Ratio(1.5, 1.4, 1.6, 5), Target("least", 1.9), "missed"),
        (Ratio(0.2, 0.1, 0.3, 5), Target("most", 1 / 3), "met"),
        (Ratio(0.3, 0.2, 0.4, 5), Target("most", 1 / 3), "unclear"),
        (Ratio(0.5, 0.4, 0.6, 5), Target("most", 1 / 3), "missed"),
        (Ratio(9.0, 8.0, 10.0, 2), Target("least", 1.9), "unclear"),  # too few rounds
        (Ratio(9.0, None, None, 1), Target("least", 1.9), "unclear"),
    ],
)
def test_a_target_is_met_or_missed_by_the_whole_interval(r, target, expected):
    assert reached(r, target) == expected


def test_targets_are_of_the_first_metric_and_pairs_of_theirs():
    values = {
        "overhead_us": {"a": [1.0, 1.1, 0.9], "b": [4.0, 4.1, 4.2]},
        "pss_mib": {"a": [5.0, 5.0, 5.0], "b": [5.0, 5.0, 5.0]},
    }
    pairs = [
        contestants.Pair("peer", "a / b", "a", "b", target=Target("most", 0.5)),
        contestants.Pair("scaling", "b / a", "b", "a", metrics=("pss_mib",)),
    ]
    found = statistics.analyse(values, pairs, [])
    assert [(c["title"], c["metric"], c["target"] and c["target"]["verdict"]) for c in found["comparisons"]] == [
        ("a / b", "overhead_us", "met"),
        ("a / b", "pss_mib", None),
        ("b / a", "pss_mib", None),
    ]
    assert set(found["noise_floor"]) == set(found["contestants"][0]["metrics"]) == {"overhead_us", "pss_mib"}


def test_a_difference_of_a_tenth_of_a_percent_is_none_however_certain():
    """Memory repeats as well as this; the report would say "1.00x more memory"."""
    values = {"pss_mib": {"a": [620.1, 620.0, 620.2], "again": [620.2, 620.1, 620.1], "b": [619.4, 619.4, 619.5]}}
    found = statistics.analyse(
        values,
        [contestants.Pair("chosen", "a / b", "a", "b")],
        [contestants.Pair("noise", "a again / a", "again", "a")],
    )
    (comparison,) = found["comparisons"]
    assert comparison["low"] > 1 and comparison["q"] < 0.05
    assert comparison["verdict"] == NO_DIFFERENCE


def test_words_follow_the_metric():
    clear = Ratio(1.5, 1.4, 1.6, 3)
    assert verdict(clear, 1.1, METRICS["time_to_first_batch"]) == "later"
    assert verdict(clear, 1.1, METRICS["pss_mib"]) == "more memory"


def test_analyse_compares_and_summarises():
    ranked = Grid().candidates(("gil", "ft"), [1], quick=False)
    all_of_them = [c for _, c in ranked]
    speed = {
        "gil/loader-thread/1": 50,
        "gil/loader-process/1": 100,
        "ft/loader-thread/1": 200,
        "ft/loader-process/1": 90,
        "gil/loader-process/1/again": 101,
        "ft/loader-thread/1/again": 199,
    }
    measured = {name: {key: [value * s for s in (1.0, 1.1, 0.9)] for key, value in speed.items()} for name in METRICS}
    found = statistics.analyse(measured, Grid().pairs(all_of_them), contestants.duplicates(all_of_them))
    headline = found["comparisons"][0]
    assert (headline["kind"], headline["metric"]) == ("headline", "throughput")
    assert headline["mean"] == pytest.approx(2.0)
    assert headline["verdict"] == "faster"
    assert found["noise_floor"]["throughput"] == pytest.approx(1.01)
    assert all(0 <= c["p"] <= c["q"] <= 1 for c in found["comparisons"])
    one = next(c for c in found["contestants"] if c["key"] == "gil/loader-thread/1")
    assert one["metrics"]["throughput"] == {"median": 50, "min": 45, "max": pytest.approx(55)}
