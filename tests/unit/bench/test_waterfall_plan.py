"""The chain: its places in every configuration, one change a step,
and a whole that its steps multiply to.
"""

import math
import random

import pytest

from ftbench.plan.candidates import CONFIGS
from ftbench.plan.case import Case
from ftbench.plan.waterfall import (
    COPIES,
    PROCESSES,
    STEP,
    THREADS,
    TODAY,
    TOTAL,
    WaterfallPlan,
    cells,
)
from ftbench.rounds.controller import choose
from ftbench.scenarios import SCENARIOS
from ftbench.stats.comparisons import compared, judge
from tests.unit.bench import simulated

CASES = (Case("", "the first"), Case("other", "another"))


@pytest.mark.parametrize(
    "configs, expected, last",
    [
        (CONFIGS, ["gil", "gil", "gil", "ft-gil", "ft"], "the GIL removed"),
        (("ft", "ft-gil", "gil"), ["gil", "gil", "gil", "ft-gil", "ft"], "the GIL removed"),
        (("gil", "ft"), ["gil", "gil", "gil", "ft"], "the free-threaded build, GIL removed"),
        (("gil", "ft-gil"), ["gil", "gil", "gil", "ft-gil"], "the free-threaded build, GIL on"),
        (("ft-gil", "ft"), ["ft-gil", "ft-gil", "ft-gil", "ft"], "the GIL removed"),
        (("gil",), ["gil"] * 3, "threads instead of processes, GIL on"),
        (("ft",), ["ft"] * 3, "threads instead of processes"),
    ],
    ids=range(7),
)
def test_the_places_of_every_configuration(configs, expected, last):
    chain = [side for side, _ in cells(configs)]
    assert [side.config for side in chain] == expected
    assert [side.variant for side in chain] == [TODAY, PROCESSES, *[THREADS] * (len(chain) - 2)]
    assert cells(configs)[-1][1] == last
    # One thing at a time.
    for before, after in zip(chain, chain[1:], strict=False):
        assert (before.config == after.config) != (before.variant == after.variant)


def test_the_steps_multiply_to_the_whole_to_the_last_digit():
    draw = random.Random(1)
    plan = WaterfallPlan()
    candidates = [c for _, c in plan.ranked(CONFIGS, [1, 2], quick=False)]
    values = {
        metric: {c.key: [draw.lognormvariate(5, 1) for _ in range(7)] for c in candidates}
        for metric in ("throughput", "cpu_per_1000")
    }
    comparisons = compared(simulated.measured(values, plan.pairs(candidates)))
    for metric in values:
        for workers in (1, 2):
            of = [c for c in comparisons if c.metric == metric and c.numerator.workers == workers]
            (total,) = [c.estimate.ratio for c in of if c.kind == TOTAL]
            steps = [c.estimate.ratio for c in of if c.kind == STEP]
            # With the most workers all steps; with fewer the ends and the threads.
            assert len(steps) == {2: 4, 1: 3}[workers]
            assert math.prod(steps) == pytest.approx(total, rel=1e-12)
    # What the run is made for is the most workers' chain; how it scales is explored.
    assert {c.numerator.workers for c in comparisons if c.estimate.asked} == {2}
    assert {c.kind for c in comparisons if c.estimate.asked} == {STEP, TOTAL}
    assert {c.metric for c in comparisons if c.estimate.asked} == {"throughput", "cpu_per_1000"}
    judge(c.estimate for c in comparisons)
    assert all(c.estimate.q == c.estimate.p for c in comparisons if c.estimate.asked)
    scaling = [c for c in comparisons if c.kind == "scaling"]
    assert scaling and all(c.metric == "throughput" and c.denominator.workers == 1 for c in scaling)


@pytest.mark.parametrize("configs", [CONFIGS, ("ft",), ("gil", "ft")])
def test_the_chain_stays_whatever_is_given_up(configs):
    ranked = WaterfallPlan(CASES).ranked(configs, [1, 2, 4, 8], quick=False)
    assert len({c.key for _, c in ranked}) == len(ranked)
    whole = {side.candidate(8, "").key for side, _ in cells(configs)}
    kept, given_up = choose(ranked, 0.0, 1.0)
    assert {c.key for c in kept} == whole
    assert len(kept) + len(given_up) == len(ranked)
    # And is all of a quick run.
    assert {
        c.key for _, c in WaterfallPlan(CASES).ranked(configs, [1, 2, 4, 8], quick=True)
    } == whole


def test_the_other_cases_go_first_then_the_middle_of_the_curve_and_one_worker_last():
    ranked = WaterfallPlan(CASES).ranked(CONFIGS, [1, 2, 4, 8], quick=False)
    ranks = {(c.workers, c.case): rank for rank, c in ranked}
    assert ranks[8, ""] < ranks[1, ""] < ranks[4, ""] < ranks[2, ""] < ranks[8, "other"]
    # Fewer workers tell how the ends and the threads scale;
    # of another case there is the whole chain.
    assert {c.variant for _, c in ranked if c.workers < 8} == {TODAY, THREADS}
    assert len([c for _, c in ranked if c.case == "other"]) == 5
    assert all(c.workers == 8 for _, c in ranked if c.case == "other")


def test_pairs_are_those_whose_candidates_are_there_and_within_a_case():
    plan = WaterfallPlan(CASES)
    everybody = [c for _, c in plan.ranked(CONFIGS, [1, 2], quick=False)]
    pairs = plan.pairs(everybody)
    assert (pairs[0].kind, pairs[0].numerator, pairs[0].denominator) == (
        TOTAL,
        "ft/loader-thread/2",
        "gil/torch-process/2",
    )
    assert [p.kind for p in pairs if p.numerator.endswith("@other")] == [TOTAL, *[STEP] * 4]
    for pair in pairs:
        assert pair.numerator.partition("@")[2] == pair.denominator.partition("@")[2]
        assert pair.numerator.endswith("@other") == pair.denominator.endswith("@other")
    assert plan.pairs(everybody[:1]) == [] == plan.pairs([])


def test_copies_are_compared_with_threads_that_share_and_given_up_before_the_chain():
    plan = WaterfallPlan(CASES, copies=True)
    ranked = plan.ranked(CONFIGS, [1, 2], quick=False)
    ranks = {c.key: rank for rank, c in ranked}
    assert ranks["ft/loader-thread/2"] == 0
    assert 0 < ranks["ft/loader-copies/2"] < ranks["ft/loader-thread/1"]
    steps = [p for p in plan.pairs(ranked.candidates) if COPIES in p.numerator and p.kind == STEP]
    assert [(p.numerator, p.denominator, p.asked) for p in steps] == [
        ("ft/loader-copies/2", "ft/loader-thread/2", True),
        ("ft/loader-copies/1", "ft/loader-thread/1", False),
        ("ft/loader-copies/2@other", "ft/loader-thread/2@other", True),
    ]
    # With the GIL, copies bring nothing.
    assert {c.config for c in ranked.candidates if c.variant == COPIES} == {"ft"}
    with_gil = plan.ranked(("gil", "ft-gil"), [2], quick=True)
    assert all(c.variant != COPIES for c in with_gil.candidates)


def test_the_main_job_is_work_that_releases_the_gil_and_work_that_holds_it():
    for name in ("pillow", "text"):
        plan = SCENARIOS[name].plan
        assert isinstance(plan, WaterfallPlan) and plan.cases[0].name == ""
        assert {"throughput", "cpu_per_1000", "time_to_first_batch", "memory_mib"} == set(
            SCENARIOS[name].metrics
        )
