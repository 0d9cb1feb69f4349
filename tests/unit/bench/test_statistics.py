"""The statistics: known values, coverage on simulated noise, and what verdicts need."""

from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from ftbench.plan.candidates import Pair, Target
from ftbench.plan.comparisons import grid
from ftbench.plan.metrics import METRICS
from ftbench.stats import statistics
from ftbench.stats.statistics import NO_DIFFERENCE, TOO_FEW, Ratio, ratio, reached, typical, verdict

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
    """What is measured: processes that differ by 4%, and in each ten turns that differ by 12%."""
    rng = random.Random(7)
    runs = 1500
    covered = 0

    def process(value: float) -> float:
        own = value * math.exp(rng.gauss(0, 0.04 / math.sqrt(2)))
        return typical([own * math.exp(rng.gauss(0, 0.12 / math.sqrt(2))) for _ in range(10)])

    for _ in range(runs):
        r = ratio([process(1.3) for _ in range(rounds)], [process(1.0) for _ in range(rounds)])
        covered += r.low <= 1.3 <= r.high
    # Three and a half standard errors of a 95% proportion over 1500 runs are 2%.
    assert 0.93 <= covered / runs <= 0.97


def test_what_a_process_typically_measures_is_the_faster_half_of_its_turns():
    assert typical([2.0, 8.0, 1e9, 9.0, 1e6]) == pytest.approx(144 ** (1 / 3))
    assert typical([512.0, 2.0, 8.0, 9.0]) == pytest.approx(4.0)
    assert typical([3.0]) == pytest.approx(3.0)


def test_a_machine_that_is_disturbed_in_a_third_of_the_turns_gives_the_same_ratio():
    rng = random.Random(3)

    def process(seconds: float) -> float:
        return typical([seconds * rng.gauss(1, 0.02) * rng.choice([1, 1, 1.8]) for _ in range(12)])

    assert ratio([process(1.1) for _ in range(40)], [process(1.0) for _ in range(40)]).mean == pytest.approx(
        1.1, abs=0.02
    )


def test_the_resolution_is_what_would_have_been_shown_in_eight_of_ten_runs():
    a, b = [100.0, 120.0, 90.0, 111.0], [80.0, 83.0, 95.0, 70.0]
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    expected = (stats.t.ppf(0.975, 3) + stats.t.ppf(0.8, 3)) * stats.sem(logs)
    assert math.log(ratio(a, b).resolution) == pytest.approx(expected)
    assert ratio(b, a).resolution == pytest.approx(ratio(a, b).resolution)
    assert ratio([1.0, 1e9], [1e9, 1.0]).resolution == pytest.approx(100)  # no float holds what it is

    # And so it is: of differences as large as the true resolution, about so many are shown.
    rng, error, rounds = random.Random(3), 0.05, 8
    true = math.exp((stats.t.ppf(0.975, rounds - 1) + stats.t.ppf(0.8, rounds - 1)) * error / math.sqrt(rounds))
    shown = 0
    for _ in range(1000):
        r = ratio([true * math.exp(rng.gauss(0, error)) for _ in range(rounds)], [1.0] * rounds)
        shown += verdict(r, THROUGHPUT) == "faster"
    assert 0.76 <= shown / 1000 <= 0.84


def test_p_values_are_those_of_the_t_test():
    a, b = [100.0, 120.0, 90.0, 111.0], [80.0, 83.0, 95.0, 70.0]
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    assert ratio(a, b).p == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    assert ratio([1.0, 2.0], [1.0, 2.0]).p == 1 and ratio([2.0, 4.0], [1.0, 2.0]).p == 0


def test_p_values_are_adjusted_over_a_whole_run():
    p = [0.001, 0.02, None, 0.03, 0.5]
    q = statistics.adjusted(p)
    assert q == [pytest.approx(0.004), pytest.approx(0.04), None, pytest.approx(0.04), pytest.approx(0.5)]
    assert statistics.adjusted([]) == [] and statistics.adjusted([None]) == [None]

    def analysis(*p_values: float, n: int = 3, asked: bool = False) -> dict:
        return {
            "comparisons": [
                {
                    "mean": 1.5,
                    "low": 1.2,
                    "high": 1.9,
                    "n": n,
                    "p": p,
                    "q": p,
                    "resolution": 1.2,
                    "metric": "throughput",
                    "asked": asked,
                    "verdict": "faster",
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
    # What the run was made for is judged by itself, and does not make the others more certain either.
    asked = analysis(0.02, 0.001, asked=True)
    statistics.adjust([asked, alone, others])
    assert [(c["verdict"], c["q"]) for c in asked["comparisons"]] == [("faster", 0.02), ("faster", 0.001)]
    assert alone["comparisons"][0]["verdict"] == NO_DIFFERENCE and alone["comparisons"][0]["q"] == pytest.approx(0.2)
    too_few = analysis(0.0001, n=2)
    statistics.adjust([alone, too_few])
    assert too_few["comparisons"][0]["verdict"] == TOO_FEW and alone["comparisons"][0]["verdict"] == "faster"


def test_percentiles_are_taken_within_rounds():
    rounds = [
        {"step": {"unit": "ms", "values": [float(v) for v in range(101)]}},
        {"step": {"unit": "ms", "values": [10.0]}},
        {},
        {"step": {"unit": "ms", "values": [2.0, 1.0]}},
    ]
    found = statistics.distributions(rounds)
    assert found["step"]["unit"] == "ms" and found["step"]["values"] == 104
    # Between two values linearly.
    assert found["step"]["percentiles"]["50"] == {"median": 10, "min": 1.5, "max": 50}
    assert found["step"]["percentiles"]["99"] == {"median": 10, "min": 1.99, "max": 99}


@pytest.mark.parametrize(
    "r, q, expected",
    [
        (Ratio(1.5, 1.4, 1.6, 3, 0.001), None, "faster"),
        (Ratio(0.5, 0.4, 0.6, 3, 0.001), 0.01, "slower"),
        (Ratio(1.5, 0.9, 2.5, 3, 0.2), None, NO_DIFFERENCE),  # the interval holds 1
        (Ratio(1.5, 1.4, 1.6, 3, 0.001), 0.06, NO_DIFFERENCE),  # not certain among so many
        (Ratio(1.009, 1.008, 1.0095, 9, 0.001), None, NO_DIFFERENCE),  # certain and negligible
        (Ratio(1.5, 1.4, 1.6, 2, 0.001), None, TOO_FEW),
        (Ratio(1.5, None, None, 1), None, TOO_FEW),
    ],
)
def test_verdict(r, q, expected):
    assert verdict(r, THROUGHPUT, q) == expected


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


def test_targets_and_questions_are_of_the_first_metric_and_some_pairs_too():
    values = {
        "overhead_us": {"a": [1.0, 1.1, 0.9], "b": [4.0, 4.1, 4.2]},
        "pss_mib": {"a": [5.0, 5.0, 5.0], "b": [5.0, 5.0, 5.0]},
    }
    pairs = [
        Pair("peer", "a / b", "a", "b", target=Target("most", 0.5), asked=True),
        Pair("scaling", "b / a once", "b", "a", first_only=True),
    ]
    found = statistics.analyse(values, pairs)
    told = [(c["title"], c["metric"], c["asked"], c["target"] and c["target"]["verdict"]) for c in found["comparisons"]]
    assert told == [
        ("a / b", "overhead_us", True, "met"),
        ("b / a once", "overhead_us", False, None),
        ("a / b", "pss_mib", False, None),
    ]
    assert set(found["candidates"][0]["metrics"]) == {"overhead_us", "pss_mib"}


def test_a_difference_of_a_tenth_of_a_percent_is_none_however_certain():
    """Memory repeats as well as this; the report would say "0.1% more memory"."""
    values = {"pss_mib": {"a": [620.1, 620.0, 620.2], "b": [619.4, 619.4, 619.5]}}
    (comparison,) = statistics.analyse(values, [Pair("chosen", "a / b", "a", "b")])["comparisons"]
    assert comparison["low"] > 1 and comparison["q"] < 0.05
    assert comparison["verdict"] == NO_DIFFERENCE


def test_words_follow_the_metric():
    clear = Ratio(1.5, 1.4, 1.6, 3)
    assert verdict(clear, METRICS["time_to_first_batch"]) == "later"
    assert verdict(clear, METRICS["cpu_per_1000"]) == "more CPU time"


def test_analyse_compares_and_summarises():
    ranked = grid().ranked(("gil", "ft"), [1], quick=False)
    all_of_them = [c for _, c in ranked]
    speed = {
        "gil/loader-thread/1": 50,
        "gil/loader-process/1": 100,
        "ft/loader-thread/1": 200,
        "ft/loader-process/1": 90,
    }
    measured = {name: {key: [value * s for s in (1.0, 1.1, 0.9)] for key, value in speed.items()} for name in METRICS}
    found = statistics.analyse(measured, grid().pairs(all_of_them))
    headline = found["comparisons"][0]
    assert (headline["kind"], headline["metric"]) == ("headline", "throughput")
    assert headline["mean"] == pytest.approx(2.0)
    assert headline["verdict"] == "faster"
    assert all(0 <= c["p"] <= c["q"] <= 1 for c in found["comparisons"])
    one = next(c for c in found["candidates"] if c["key"] == "gil/loader-thread/1")
    assert one["metrics"]["throughput"] == {"median": 50, "min": 45, "max": pytest.approx(55)}
