"""The wording of verdicts: of ratios, scenarios and what would settle them."""

import math
import re
from dataclasses import replace

import pytest

from ftbench.document.model import Change, Round, RoundDisturbance, Verdict
from ftbench.machine.disturbance import State
from ftbench.plan.metrics import METRICS
from ftbench.report import run_words, verdict_words
from ftbench.scenarios import SCENARIOS
from tests.unit.bench import documents, simulated
from tests.unit.bench.reports import alone, glance, named, rounds_of

THROUGHPUT, MEMORY = METRICS["throughput"], METRICS["memory_mib"]


def test_a_scenario_without_a_waterfall_tells_its_first_conclusion(many):
    ((_, sentence),) = glance(alone(many, many.scenario("workers")))
    assert re.match(
        r"With 8 workers, loader threads in the free-threaded build against loader processes "
        r"in the GIL "
        r"build: (9\d% faster \(\d+% to \d+%\)|2\.\d\d times as fast \([\d.]+ to [\d.]+\))\.$",
        sentence,
    )
    ((_, sentence),) = glance(alone(many, many.scenario("sizes")))
    # Every case with its interval.
    cases = [case.title for case in many.scenario("sizes").cases]
    assert len(cases) == 3 and sentence.startswith(
        "With 2 workers, loader threads in the free-threaded build "
    )
    for case in cases:
        assert re.search(
            rf"[,;] {re.escape(case)}: [\d.]+(% faster| times as fast) \([^)]* to [^)]*\)",
            sentence,
        ), sentence


def test_only_runs_with_a_waterfall_are_headed_by_the_gil(many):
    assert "GIL" not in run_words.subject(alone(many, many.scenario("workers")))
    assert "GIL" in run_words.subject(replace(many, waterfalls=[object()]))


def test_a_second_metric_that_is_asked_for_has_a_sentence_of_its_own(many):
    """As in startup: the first batch, and from epoch to epoch."""
    asked = documents.scenario(
        many.results.scenarios[0],
        "asks",
        metrics=("time_to_first_batch", "epoch_gap", "memory_mib"),
    )
    run = alone(many, asked)
    first, second = verdict_words.answer(run.scenarios[0])
    assert glance(run) == [(run.scenarios[0], f"{first} {second}")]
    assert first.startswith("With 2 workers, loader threads") and ": time to first batch " in first
    assert (
        second.startswith("With 2 workers, loader threads")
        and ": from epoch to epoch, new workers " in second
    )


@pytest.fixture(scope="module")
def several(many):
    """A scenario whose question asks for several comparisons:
    threads against processes, and what each brings.
    """
    plan = SCENARIOS["augment"].plan
    speed = documents.scenario(
        many.results.scenarios[0], "asks", plan=plan, value=lambda c: 100.0 + 50 * c.workers
    )
    return alone(many, speed).scenarios[0]


def test_each_comparison_that_the_question_asks_for_has_a_sentence(several):
    threads, processes, both = verdict_words.answer(several)
    assert threads.startswith(
        "Loader threads x2 in the free-threaded build against no workers in the free-threaded"
    )
    assert processes.startswith(
        "Loader processes x2 in the GIL build against no workers in the GIL build, "
    )
    assert both.startswith(
        "With 2 workers, loader threads in the free-threaded build against loader processes in the"
    )
    assert "method" not in {c.kind for c in several.principal()}


def test_each_comparison_is_told_with_the_most_workers_that_both_sides_have(several):
    there = [
        c
        for c in several.comparisons
        if " gil/loader-process/2" not in f" {c.numerator.key} {c.denominator.key}"
    ]
    threads, processes, both = verdict_words.answer(replace(several, comparisons=there))
    assert threads.startswith("Loader threads x2 ") and processes.startswith("Loader processes x1 ")
    assert both.startswith("With 1 worker, loader threads ")


def test_of_one_build_threads_are_still_compared_with_processes(several):
    alone = [c for c in several.comparisons if {c.numerator.config, c.denominator.config} == {"ft"}]
    assert {c.kind for c in replace(several, comparisons=alone).principal()} >= {
        "headline",
        "method",
    }


def test_of_many_cases_the_largest_differences_are_told(many, monkeypatch):
    monkeypatch.setattr(verdict_words, "MOST_CASES", 2)
    sizes = named(many, "sizes")
    sentence = verdict_words.answer(sizes)[0]
    (first, *_) = {c.kind: c for c in sizes.principal()}.values()
    group = [
        c
        for c in sizes.principal()
        if c.kind == first.kind and c.numerator.config == first.numerator.config
    ]
    least = min(group, key=lambda c: abs(math.log(c.estimate.ratio)))
    factors = "times as fast" in sentence
    told = [c for c in group if verdict_words.short(c, factors) in sentence]
    assert len(group) == 3 and len(told) == 2 and least not in told
    assert sentence.endswith("(the largest differences of 3).")


@pytest.mark.parametrize(
    "metric, ratio, wanted",
    [
        (THROUGHPUT, 1.57, "57% faster"),
        (THROUGHPUT, 0.86, "14% slower"),
        (MEMORY, 0.86, "14% less memory"),
        (THROUGHPUT, 1.004, "0.4% faster"),
        (THROUGHPUT, 0.996, "0.4% slower"),
        (THROUGHPUT, 1.997, "100% faster"),
        (THROUGHPUT, 2.49, "2.49 times as fast"),
        (METRICS["time_to_first_batch"], 92.3, "92 times as long"),
        (THROUGHPUT, 0.25, "75% slower"),
        (MEMORY, 0.002, "0.002 times as much memory"),
        (MEMORY, 1e9, "more than 1,000 times as much memory"),
        (METRICS["step_over_sum"], 0.5, "50% smaller"),
    ],
)
def test_a_ratio_in_words(metric, ratio, wanted):
    assert verdict_words.directed(metric, ratio) == wanted


@pytest.mark.parametrize(
    "change, wanted",
    [
        (
            {"ratio": 1.57, "low": 1.48, "high": 1.66, "verdict": Verdict.ABOVE},
            "57% faster (48% to 66%)",
        ),
        (
            {"ratio": 0.86, "low": 0.80, "high": 0.92, "verdict": Verdict.BELOW},
            "14% slower (8% to 20%)",
        ),
        (
            {"ratio": 1.21, "low": 0.77, "high": 1.92, "verdict": Verdict.NO_DIFFERENCE},
            "between 23% slower and 92% faster",
        ),
        (
            {"ratio": 0.41, "low": 0.30, "high": 0.56, "verdict": Verdict.BELOW},
            "59% slower (44% to 70%)",
        ),
        (
            {"ratio": 3.1, "low": 2.0, "high": 4.0, "verdict": Verdict.ABOVE},
            "3.1 times as fast (2.00 to 4.0)",
        ),
        (
            {"ratio": 0.05, "low": 0.04, "high": 0.12, "verdict": Verdict.BELOW},
            "0.050 times as fast (0.040 to 0.12)",
        ),
        # Both ends in the form of the ratio, if the far one is not too far.
        (
            {"ratio": 1.9, "low": 1.5, "high": 2.4, "verdict": Verdict.ABOVE},
            "90% faster (50% to 140%)",
        ),
        (
            {"ratio": 1.9, "low": 1.1, "high": 3.3, "verdict": Verdict.ABOVE},
            "1.90 times as fast (1.10 to 3.3)",
        ),
        (
            {"ratio": 1.1, "low": 0.3, "high": 4.0, "verdict": Verdict.NO_DIFFERENCE},
            "between 0.30 and 4.0 times as fast",
        ),
        (
            {"ratio": 0.5, "low": 0.004, "high": 60, "verdict": Verdict.NO_DIFFERENCE},
            "between 0.004 and 60 times as fast",
        ),
        (
            {"ratio": 1.2, "low": 1.01, "high": 1.4, "verdict": Verdict.NO_DIFFERENCE},
            "20% faster (1% to 40%), not certain",
        ),
        (
            {"ratio": 1.002, "low": 1.001, "high": 1.003, "verdict": Verdict.NO_DIFFERENCE},
            "the same within 0.3%",
        ),
        (
            {"ratio": 1.002, "low": 0.998, "high": 1.006, "verdict": Verdict.NO_DIFFERENCE},
            "the same within 0.6%",
        ),
        (
            {"ratio": 1.2, "low": None, "high": None, "n": 1, "verdict": Verdict.TOO_FEW},
            "20% faster (too few rounds to be sure)",
        ),
        (
            {"ratio": 1.2, "low": 1.1, "high": 1.3, "n": 2, "verdict": Verdict.TOO_FEW},
            "20% faster (too few rounds to be sure)",
        ),
    ],
)
def test_outcomes_in_words(change, wanted):
    assert (
        verdict_words.outcome(THROUGHPUT, Change(**{"n": 5, "resolution": None, **change}))
        == wanted
    )


@pytest.mark.parametrize(
    "change, wanted",
    [
        # What is seen half as well takes four times as long: three times 200 s more.
        (
            {"ratio": 1.1, "low": 1.0, "high": 1.21, "resolution": 1.21},
            "10 more minutes would settle it",
        ),
        (
            {"ratio": 1.1, "low": 0.9999, "high": 1.1 * 1.1001, "resolution": 1.11},
            "1 more minute would settle it",
        ),
        # What would take ten times as long is no advice.
        (
            {"ratio": 1.01, "low": 0.8, "high": 1.28},
            "in 4 rounds, differences below about 40% may be missed",
        ),
        (
            {"ratio": 1.1, "low": 0.01, "high": 100.0, "resolution": math.exp(math.log(100))},
            "in 4 rounds, differences below about 100 times may be missed",
        ),
        ({"ratio": 1.3, "low": 1.2, "high": 1.4}, None),
        # A difference below 1% is none.
        ({"ratio": 1.002, "low": 0.998, "high": 1.006}, None),
        ({"ratio": 1.0, "low": 1.0, "high": 1.0}, None),
        ({"ratio": 1.3, "low": 1.2, "high": 1.4, "verdict": Verdict.ABOVE}, None),
        ({"ratio": 1.3, "low": None, "high": None, "verdict": Verdict.TOO_FEW}, None),
    ],
)
def test_what_would_settle_it(change, wanted):
    figures = {"n": 4, "verdict": Verdict.NO_DIFFERENCE, "resolution": 1.4, **change}
    assert verdict_words.settles(rounds_of(50.0), Change(**figures)) == wanted


def test_one_ratio_that_needs_factors_decides_for_a_table():
    def of(ratio: float, low: float, high: float, verdict: Verdict) -> Change:
        return Change(ratio=ratio, low=low, high=high, n=5, resolution=None, verdict=verdict)

    half = of(0.49, 0.44, 0.56, Verdict.BELOW)
    same = of(1.002, 0.998, 1.006, Verdict.NO_DIFFERENCE)
    open_ = of(0.98, 0.93, 1.03, Verdict.NO_DIFFERENCE)
    double = of(2.15, 2.08, 2.23, Verdict.ABOVE)
    few, far = of(1.5, 0.001, 900.0, Verdict.TOO_FEW), of(7.0, 6.0, 8.0, Verdict.OTHER_SAMPLES)

    def table(*changes: Change) -> list[str]:
        factors = verdict_words.in_factors(changes)
        return [verdict_words.outcome(THROUGHPUT, change, factors) for change in changes]

    # Next to a column of factors, percent will do.
    assert not verdict_words.in_factors([half, double], verdict_words.NEXT_TO_FACTORS)
    # An interval or a ratio that no table has decides nothing.
    assert table(half, open_, few, far)[:2] == [
        "51% slower (44% to 56%)",
        "between 7% slower and 3% faster",
    ]
    assert table(half, open_, same, double) == [
        "0.49 times as fast (0.44 to 0.56)",
        "between 0.93 and 1.03 times as fast",
        "the same within 0.6%",
        "2.15 times as fast (2.08 to 2.23)",
    ]


@pytest.mark.parametrize("seconds", [1e6, 1e308])
def test_what_would_take_days_settles_nothing(seconds):
    change = Change(
        ratio=1.1, low=1.0, high=1.21, n=4, resolution=1.21, verdict=Verdict.NO_DIFFERENCE
    )
    said = "in 4 rounds, differences below about 21% may be missed"
    assert verdict_words.settles(rounds_of(seconds), change) == said


def test_disturbed_rounds_are_told():
    state = State([1.5, 1.0, 0.5], 2, None, None)

    def one(number: int, others: float | None, before: State = state) -> Round:
        return Round(number, 3.0, [], RoundDisturbance(3.0, 1.9, others, None, None, before))

    # The last one's system tells nothing of others.
    rounds = [one(1, 0.0), one(2, 0.25), one(3, None, replace(state, load=None))]
    scenario = replace(simulated.blank().scenarios[0], rounds=rounds)
    assert run_words.limits(scenario) == [
        "1 of 3 rounds was disturbed (round 2: other processes used 0.25 of 2 CPUs). What comes "
        "and goes widens the intervals; what stays favours those that need less CPU time."
    ]


def test_too_few_turns_for_rare_long_ones_are_told():
    scenario = of_few_turns(3)
    assert run_words.limits(scenario) == [
        "A candidate with 12 turns may have had none of its rare long ones (one in ten, twice as "
        "long): intervals of throughput are 10% wider than with 29 turns."
    ]


def of_few_turns(rounds: int):
    (scenario,) = simulated.document(simulated.blank(), 1, rounds=rounds).scenarios
    for one in scenario.rounds:
        one.seconds = 20.0
        for trial in one.trials:
            trial.turn_seconds = [0.1] * 4
    return scenario


def test_with_more_turns_the_interval_is_no_longer_widened():
    # 10% are seen in as many turns as rare long ones need:
    # 29 instead of 12, so 17 twelfths of a minute more.
    change = Change(
        ratio=1.1, low=0.98, high=1.23, n=3, resolution=1.1 * 1.09, verdict=Verdict.NO_DIFFERENCE
    )
    assert verdict_words.settles(of_few_turns(3), change) == "2 more minutes would settle it"
    # Half as well seen without them takes four times as long: three minutes more.
    change = replace(change, low=0.85, high=1.42, resolution=1.1 * 1.21)
    assert verdict_words.settles(of_few_turns(3), change) == "3 more minutes would settle it"
