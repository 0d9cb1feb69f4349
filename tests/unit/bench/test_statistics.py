"""The statistics: known values, coverage on simulated noise, and what verdicts need."""

import math
import random
from statistics import fmean

import pytest
from scipy import stats

from ftbench.document.model import Verdict
from ftbench.plan.candidates import Pair
from ftbench.plan.comparisons import grid
from ftbench.plan.metrics import METRICS
from ftbench.stats.comparisons import compared, judge
from ftbench.stats.statistics import NEGLIGIBLE, Ratio, ratio, verdict
from tests.unit.bench import simulated


def known(
    value: float,
    low: float | None,
    high: float | None,
    n: int,
    p: float | None = None,
    **more: float,
) -> Ratio:
    return Ratio(
        ratio=value, low=low, high=high, n=n, p=p, resolution=None, verdict=Verdict.TOO_FEW, **more
    )


def test_ratio_of_known_values():
    r = ratio([2.0, 8.0, 4.0], [1.0, 1.0, 1.0])
    assert r.ratio == pytest.approx(4.0)
    logs = [math.log(2), math.log(8), math.log(4)]
    low, high = stats.t.interval(0.95, 2, loc=math.log(4), scale=stats.sem(logs))
    assert (r.low, r.high) == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))
    assert r.n == 3


def test_ratio_is_symmetric():
    a, b = [100.0, 120.0, 90.0, 111.0], [80.0, 83.0, 95.0, 70.0]
    r, inverse = ratio(a, b), ratio(b, a)
    assert r.ratio == pytest.approx(1 / inverse.ratio)
    assert r.low == pytest.approx(1 / inverse.high)


def test_only_the_pairing_within_rounds_counts():
    # A machine whose speed changes tenfold from round to round, and a ratio that does not.
    slowness = [1.0, 10.0, 3.0, 7.0]
    r = ratio([150 / s for s in slowness], [100 / s for s in slowness])
    assert r.low == pytest.approx(1.5) and r.high == pytest.approx(1.5)


def test_one_round_has_no_interval():
    assert ratio([3.0], [2.0]) == known(1.5, None, None, 1)


@pytest.mark.parametrize("a, b", [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_ratio_refuses_what_has_none(a, b):
    with pytest.raises(ValueError):
        ratio(a, b)


@pytest.mark.parametrize("rounds", [3, 6])
@pytest.mark.slow(cases=1)
def test_interval_covers_the_true_ratio_as_often_as_it_says(rounds):
    """What is measured: processes that differ by 4%, and in each ten turns that differ by 12%."""
    rng = random.Random(7)
    runs = 1500
    covered = 0

    def process(value: float) -> float:
        own = value * math.exp(rng.gauss(0, 0.04 / math.sqrt(2)))
        return fmean(own * math.exp(rng.gauss(0, 0.12 / math.sqrt(2))) for _ in range(10))

    for _ in range(runs):
        r = ratio([process(1.3) for _ in range(rounds)], [process(1.0) for _ in range(rounds)])
        covered += r.low <= 1.3 <= r.high
    # Three and a half standard errors of a 95% proportion over 1500 runs are 2%.
    assert 0.93 <= covered / runs <= 0.97


def test_the_resolution_is_what_would_have_been_shown_in_eight_of_ten_runs():
    a, b = [100.0, 120.0, 90.0, 111.0], [80.0, 83.0, 95.0, 70.0]
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    resolution = (stats.t.ppf(0.975, 3) + stats.t.ppf(0.8, 3)) * stats.sem(logs) + math.log(
        NEGLIGIBLE
    )
    assert math.log(ratio(a, b).resolution) == pytest.approx(resolution)
    assert ratio(b, a).resolution == pytest.approx(ratio(a, b).resolution)
    # no float holds what it is
    assert ratio([1.0, 1e9], [1e9, 1.0]).resolution == pytest.approx(100)

    # And so it is: of differences as large as the true resolution, about that many are shown.
    rng, error, rounds = random.Random(3), 0.05, 8
    true = math.exp(
        (stats.t.ppf(0.975, rounds - 1) + stats.t.ppf(0.8, rounds - 1)) * error / math.sqrt(rounds)
    )
    true *= NEGLIGIBLE
    shown = 0
    for _ in range(1000):
        r = ratio([true * math.exp(rng.gauss(0, error)) for _ in range(rounds)], [1.0] * rounds)
        shown += verdict(r) == Verdict.ABOVE
    assert 0.76 <= shown / 1000 <= 0.84


def test_p_values_are_those_of_the_t_test():
    a, b = [100.0, 120.0, 90.0, 111.0], [80.0, 83.0, 95.0, 70.0]
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    assert ratio(a, b).p == pytest.approx(stats.ttest_1samp(logs, 0).pvalue)
    assert ratio([1.0, 2.0], [1.0, 2.0]).p == 1 and ratio([2.0, 4.0], [1.0, 2.0]).p == 0


def test_p_values_are_adjusted_over_a_whole_run():
    found = ratios(0.001, 0.02, 0.03, 0.5) + ratios(None, 0.01, n=2)
    judge(found)
    assert [c.q for c in found] == [*map(pytest.approx, (0.004, 0.04, 0.04, 0.5)), None, None]
    judge([])


def ratios(*p_values: float | None, n: int = 3, asked: bool = False) -> list[Ratio]:
    figures = {
        "ratio": 1.5,
        "low": 1.2,
        "high": 1.9,
        "n": n,
        "resolution": 1.2,
        "verdict": Verdict.ABOVE,
    }
    return [Ratio(**figures, p=p, asked=asked) for p in p_values]


def test_verdicts_hold_over_a_whole_run():
    alone, others = ratios(0.02), ratios(*[0.9] * 9)
    judge(alone)
    assert alone[0].verdict == Verdict.ABOVE
    # Among ten, one of p = 0.02 is what chance gives.
    judge(alone + others)
    assert alone[0].verdict == Verdict.NO_DIFFERENCE and alone[0].q == pytest.approx(0.2)
    # What the run was made for is judged by itself,
    # and does not make the others more certain either.
    asked = ratios(0.02, 0.001, asked=True)
    judge(asked + alone + others)
    assert [(c.verdict, c.q) for c in asked] == [(Verdict.ABOVE, 0.02), (Verdict.ABOVE, 0.001)]
    assert alone[0].verdict == Verdict.NO_DIFFERENCE and alone[0].q == pytest.approx(0.2)
    too_few = ratios(0.0001, n=2)
    judge(alone + too_few)
    assert too_few[0].verdict == Verdict.TOO_FEW and alone[0].verdict == Verdict.ABOVE


@pytest.mark.parametrize(
    "r, expected",
    [
        (known(1.5, 1.4, 1.6, 3, 0.001), Verdict.ABOVE),
        (known(0.5, 0.4, 0.6, 3, 0.001, q=0.01), Verdict.BELOW),
        (known(1.5, 0.9, 2.5, 3, 0.2), Verdict.NO_DIFFERENCE),  # the interval holds 1
        # not certain among that many
        (known(1.5, 1.4, 1.6, 3, 0.001, q=0.06), Verdict.NO_DIFFERENCE),
        (known(1.009, 1.008, 1.0095, 9, 0.001), Verdict.NO_DIFFERENCE),  # certain and negligible
        (known(1.05, 1.005, 1.1, 9, 0.01), Verdict.NO_DIFFERENCE),  # perhaps negligible
        (known(0.95, 0.90, 0.995, 9, 0.01), Verdict.NO_DIFFERENCE),
        (known(1.5, 1.4, 1.6, 2, 0.001), Verdict.TOO_FEW),
        (known(1.5, None, None, 1), Verdict.TOO_FEW),
    ],
)
def test_verdict(r, expected):
    assert verdict(r) == expected


A, B = "ft/loader-thread/1", "gil/loader-thread/1"


def test_questions_are_of_the_first_metric_and_some_pairs_too():
    values = {
        "overhead_us": {A: [1.0, 1.1, 0.9], B: [4.0, 4.1, 4.2]},
        "memory_mib": {A: [5.0, 5.0, 5.0], B: [5.0, 5.0, 5.0]},
    }
    pairs = [Pair("peer", A, B, asked=True), Pair("scaling", B, A, first_only=True)]
    told = [
        (c.kind, c.metric, c.estimate.asked) for c in compared(simulated.measured(values, pairs))
    ]
    assert told == [
        ("peer", "overhead_us", True),
        ("scaling", "overhead_us", False),
        ("peer", "memory_mib", False),
    ]


def test_a_difference_of_a_tenth_of_a_percent_is_none_however_certain():
    """Memory repeats as well as this; the report would say "0.1% more memory"."""
    values = {"memory_mib": {A: [620.1, 620.0, 620.2], B: [619.4, 619.4, 619.5]}}
    (comparison,) = compared(simulated.measured(values, [Pair("chosen", A, B)]))
    judge([comparison.estimate])
    assert comparison.estimate.low > 1 and comparison.estimate.q < 0.05
    assert comparison.estimate.verdict == Verdict.NO_DIFFERENCE


def test_a_plan_of_comparisons_is_analysed():
    ranked = grid().ranked(("gil", "ft"), [1], quick=False)
    speed = {
        "gil/loader-thread/1": 50,
        "gil/loader-process/1": 100,
        "ft/loader-thread/1": 200,
        "ft/loader-process/1": 90,
    }
    values = {
        name: {key: [value * s for s in (1.0, 1.1, 0.9)] for key, value in speed.items()}
        for name in METRICS
    }
    found = compared(simulated.measured(values, grid().pairs([c for _, c in ranked])))
    judge(c.estimate for c in found)
    headline = found[0]
    assert (headline.kind, headline.metric, headline.estimate.verdict) == (
        "headline",
        "throughput",
        Verdict.ABOVE,
    )
    assert headline.estimate.ratio == pytest.approx(2.0)
    assert all(0 <= c.estimate.p <= c.estimate.q <= 1 for c in found)
