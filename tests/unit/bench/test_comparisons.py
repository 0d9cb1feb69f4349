"""Comparisons: who takes part for them, who is given up first, and who is compared with whom."""

import pytest

from ftbench.plan.candidates import (
    CONFIGS,
    SERIAL,
    Candidate,
    Ranking,
    listed,
    reduce,
    worker_counts,
)
from ftbench.plan.case import Case
from ftbench.plan.comparisons import (
    EFFECT_OF_THE_GIL,
    USUAL,
    ComparisonPlan,
    grid,
    with_every_count,
)
from ftbench.scenarios import SCENARIOS

CASES = (Case("a", "first"), Case("b", "second"), Case("c", "third"))
PLAN = ComparisonPlan(USUAL, CASES, quick_cases=("a", "c"))
GRID = grid()


def keys(ranked) -> set[str]:
    return {c.key for _, c in ranked}


def test_everything_under_every_case():
    ranked = PLAN.ranked(CONFIGS, [1, 2], quick=False)
    # ft threads, gil processes, ft-gil threads, ft processes, gil threads
    assert len(keys(ranked)) == len(ranked) == 3 * 5


def test_the_first_comparison_of_all_cases_outlives_the_others_of_the_first():
    ranked = PLAN.ranked(CONFIGS, [2], quick=False)
    kept, _ = reduce(ranked, 6)
    assert {c.case for c in kept} == {"a", "b", "c"}
    kept, _ = reduce(ranked, 1)
    assert {c.key for c in kept} == {"ft/loader-thread/2@a", "gil/loader-process/2@a"}


def test_candidates_that_are_left_out_are_named_together():
    threads = [Candidate("ft", "loader-thread", n, case) for n in (16, 2, 4) for case in "ab"]
    some = [*threads, Candidate("gil", "loader-process", 4, "b"), Candidate("ft", "serial", 0, "a")]
    assert (
        listed(some, {"a", "b"})
        == "ft loader threads x2, x4, x16; gil loader processes x4 (b); ft no workers (a)"
    )
    alone = [Candidate("ft", "serial", 0), Candidate("ft", "bare-thread", 1)]
    assert listed(alone, {""}) == "ft no workers; ft bare threads x1"


def test_the_first_case_which_has_no_name_leaves_no_empty_brackets():
    alone = [Candidate("gil", "torch-process", 1), Candidate("gil", "loader-process", 2)]
    decoded = Candidate("gil", "loader-process", 2, "decode")
    assert listed([*alone, decoded], {"", "decode", "resize"}) == (
        "gil torch DataLoader processes x1; gil loader processes x2 (first case, decode)"
    )


def test_quick_has_the_quick_comparisons_under_the_quick_cases():
    ranked = PLAN.ranked(CONFIGS, [2], quick=True)
    assert {(c.config, c.variant) for _, c in ranked} == {
        ("ft", "loader-thread"),
        ("gil", "loader-process"),
    }
    assert {c.case for _, c in ranked} == {"a", "c"}


def test_every_count_if_asked_for_and_the_ends_of_the_curve_longest():
    plan = ComparisonPlan(with_every_count(USUAL[:1]), CASES[:1])
    ranked = plan.ranked(CONFIGS, [2, 8, 64], quick=False)
    assert {c.workers for _, c in ranked} == {2, 8, 64}
    kept, _ = reduce(ranked, 4)
    assert {c.workers for c in kept} == {2, 64}
    assert {c.workers for _, c in plan.ranked(CONFIGS, [2, 8, 64], quick=True)} == {2, 64}
    assert [p.numerator.rpartition("/")[2] for p in plan.pairs(c for _, c in ranked)] == [
        "64@a",
        "8@a",
        "2@a",
    ]


@pytest.mark.parametrize("plan", [PLAN, SCENARIOS["pillow"].plan, SCENARIOS["augment"].plan])
@pytest.mark.parametrize("quick", [False, True])
def test_no_workers_are_measured_if_asked_for_and_kept_as_long_as_one_worker(plan, quick):
    before, ranked = (plan.ranked(CONFIGS, counts, quick) for counts in ([1, 2, 4], [0, 1, 2, 4]))
    configs, cases = ({getattr(c, name) for _, c in before} for name in ("config", "case"))
    without = {c.key for _, c in ranked if c.workers == 0}
    assert without == {Candidate(a, SERIAL, 0, b).key for a in configs for b in cases}
    assert keys(before) == keys(ranked) - (without - keys(before))
    assert plan.pairs(c for _, c in before) == plan.pairs(
        c for _, c in ranked if c.key in keys(before)
    )
    last = max(rank for rank, c in ranked if c.workers == 0 and c.case == plan.cases[0].name)
    assert all(rank >= last for rank, c in ranked if c.workers == 2 and not quick)


@pytest.mark.parametrize("configs", [("gil",), ("ft",), ("ft-gil",), ("ft-gil", "ft")])
@pytest.mark.parametrize("quick", [False, True])
def test_one_twin_alone_measures_what_it_can(configs, quick):
    ranked = PLAN.ranked(configs, [2], quick)
    candidates = [c for _, c in ranked]
    assert candidates and {c.config for c in candidates} <= set(configs)
    assert len(keys(ranked)) == len(ranked)


def test_pairs_are_within_a_case_and_the_first_comparison_comes_first():
    pairs = PLAN.pairs(c for _, c in PLAN.ranked(CONFIGS, [2], quick=False))
    assert len(pairs) == 4 * 3 and [p.kind for p in pairs[:4]] == ["headline"] * 3 + ["gil"]
    for pair in pairs:
        assert pair.numerator.partition("@")[2] == pair.denominator.partition("@")[2] != ""
    assert "threads without the GIL" in pairs[0].why


def test_nothing_for_configurations_of_nothing():
    assert ComparisonPlan((EFFECT_OF_THE_GIL,), CASES).ranked(("gil",), [2], quick=False) == []


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda s: s.name)
@pytest.mark.parametrize("configs", [("gil",), ("ft",), ("ft-gil", "ft"), CONFIGS])
@pytest.mark.parametrize("quick", [False, True])
def test_pairs_are_of_candidates_that_some_configurations_can_measure(scenario, configs, quick):
    candidates = [c for _, c in scenario.plan.ranked(configs, scenario.workers(4), quick)]
    keys = {c.key for c in candidates}
    # a peer of the ft twin alone
    assert bool(candidates) is (scenario.name != "peers-spdl-io" or "ft" in configs)
    assert len(keys) == len(candidates) and {c.config for c in candidates} <= set(configs)
    for pair in scenario.plan.pairs(candidates):
        assert {pair.numerator, pair.denominator} <= keys


@pytest.mark.parametrize(
    "scenario",
    [s for s in SCENARIOS.values() if type(s.plan) is ComparisonPlan and s.plan.quick_cases],
    ids=lambda s: s.name,
)
def test_scenarios_name_their_cases(scenario):
    assert scenario.case_axis and scenario.question
    assert set(scenario.plan.quick_cases) <= {case.name for case in scenario.plan.cases}
    for quick in (False, True):
        ranked = scenario.plan.ranked(CONFIGS, [1, 2], quick)
        assert scenario.plan.cases[0].name in {c.case for rank, c in ranked if rank == 0}
        pairs = scenario.plan.pairs(c for _, c in ranked)
        assert pairs[0].kind == "headline"


@pytest.mark.parametrize(
    "cpus, expected",
    [
        (1, [1]),
        (2, [1, 2]),
        (3, [1, 2, 3]),
        (8, [1, 2, 4, 8]),
        (12, [1, 2, 4, 8, 12]),
        (96, [1, 2, 4, 8, 16, 32, 64, 96]),
    ],
)
def test_worker_counts(cpus, expected):
    assert worker_counts(cpus) == expected


def test_middle_worker_counts_are_given_up_first_and_the_headline_never():
    ranked = GRID.ranked(CONFIGS, [1, 2, 4, 8], quick=False)
    kept, dropped = reduce(ranked, len(ranked) - 1)
    assert {c.workers for c in dropped} == {2}
    kept, dropped = reduce(ranked, 12)
    assert {c.workers for c in kept} == {1, 8}
    kept, dropped = reduce(ranked, 1)
    assert {c.key for c in kept} == {
        "gil/loader-process/8",
        "ft/loader-thread/8",
        "ft-gil/loader-thread/8",
    }
    assert len(kept) + len(dropped) == len(ranked)


def test_who_takes_long_is_given_up_for_good():
    """By the time of its own trials, not by the mean of all."""
    quick, slow = Candidate("ft", "loader-thread", 1), Candidate("gil", "loader-spawn", 1)
    ranked, costs = Ranking([(0, quick), (1, slow)]), {quick: 1.0, slow: 3.0}
    assert reduce(ranked, 3.0, costs.get) == ([quick], [slow])
    assert reduce(ranked, 4.0, costs.get) == ([quick, slow], [])


def test_pairs_hold_only_what_was_measured_and_the_headline_comes_first():
    found = GRID.pairs(c for _, c in GRID.ranked(CONFIGS, [1, 2], quick=False))
    assert [p.kind for p in found[:2]] == ["headline", "headline"]
    assert (
        found[0].numerator == "ft/loader-thread/2"
        and found[0].denominator == "gil/loader-process/2"
    )
    kinds = {p.kind for p in found}
    assert kinds == {"headline", "gil", "build", "method", "scaling"}
    assert {p.kind for p in GRID.pairs(c for _, c in GRID.ranked(("gil",), [2], quick=False))} == {
        "method"
    }
