"""The contest of a few comparisons under every case: who takes part, who stays, who is compared."""

from __future__ import annotations

import pytest

from ftbench.plan.by_case import USUAL, ByCase, Versus
from ftbench.plan.contestants import CONFIGS, reduce
from ftbench.plan.scenario import Case
from ftbench.scenarios import SCENARIOS

CASES = (Case("a", "first"), Case("b", "second"), Case("c", "third"))
CONTEST = ByCase(CASES, quick_cases=("a", "c"))


def keys(ranked) -> set[str]:
    return {c.key for _, c in ranked}


def test_everything_under_every_case():
    ranked = CONTEST.candidates(CONFIGS, [1, 2], quick=False)
    # ft threads, gil processes, ft-gil threads, ft processes, gil threads
    assert len(keys(ranked)) == len(ranked) == 3 * 5


def test_the_first_comparison_of_all_cases_outlives_the_others_of_the_first():
    ranked = CONTEST.candidates(CONFIGS, [2], quick=False)
    kept, _ = reduce(ranked, 6)
    assert {c.case for c in kept} == {"a", "b", "c"}
    kept, _ = reduce(ranked, 1)
    assert {c.key for c in kept} == {"ft/loader-thread/2@a", "gil/loader-process/2@a"}


def test_quick_has_the_quick_comparisons_under_the_quick_cases():
    ranked = CONTEST.candidates(CONFIGS, [2], quick=True)
    assert {(c.config, c.variant) for _, c in ranked} == {("ft", "loader-thread"), ("gil", "loader-process")}
    assert {c.case for _, c in ranked} == {"a", "c"}


def test_every_count_if_asked_for_and_the_ends_of_the_curve_longest():
    contest = ByCase(CASES[:1], USUAL[:1], every_count=True)
    ranked = contest.candidates(CONFIGS, [2, 8, 64], quick=False)
    assert {c.workers for _, c in ranked} == {2, 8, 64}
    kept, _ = reduce(ranked, 4)
    assert {c.workers for c in kept} == {2, 64}
    assert {c.workers for _, c in contest.candidates(CONFIGS, [2, 8, 64], quick=True)} == {2, 64}
    assert [p.title.split(", ")[1] for p in contest.pairs(c for _, c in ranked)] == ["x64", "x8", "x2"]


@pytest.mark.parametrize("configs", [("gil",), ("ft",), ("ft-gil",), ("ft-gil", "ft")])
@pytest.mark.parametrize("quick", [False, True])
def test_one_twin_alone_measures_what_it_can(configs, quick):
    ranked = CONTEST.candidates(configs, [2], quick)
    contestants = [c for _, c in ranked]
    assert contestants and {c.config for c in contestants} <= set(configs)
    assert len(keys(ranked)) == len(ranked)


def test_pairs_are_within_a_case_and_the_first_comparison_comes_first():
    pairs = CONTEST.pairs(c for _, c in CONTEST.candidates(CONFIGS, [2], quick=False))
    assert len(pairs) == 4 * 3 and [p.kind for p in pairs[:4]] == ["headline"] * 3 + ["gil"]
    for pair in pairs:
        assert pair.numerator.partition("@")[2] == pair.denominator.partition("@")[2] != ""
    assert "first: threads without the GIL" in pairs[0].title


def test_nothing_for_configurations_of_nothing():
    assert (
        ByCase(CASES, (Versus("gil", ("ft", "loader-thread"), ("ft-gil", "loader-thread")),)).candidates(
            ("gil",), [2], quick=False
        )
        == []
    )


@pytest.mark.parametrize(
    "scenario", [s for s in SCENARIOS.values() if isinstance(s.contest, ByCase)], ids=lambda s: s.name
)
def test_scenarios_name_their_cases(scenario):
    assert scenario.contest.cases == scenario.cases and scenario.case_axis and scenario.question
    assert set(scenario.contest.quick_cases) <= {case.name for case in scenario.cases}
    for quick in (False, True):
        ranked = scenario.contest.candidates(CONFIGS, [1, 2], quick)
        assert scenario.cases[0].name in {c.case for rank, c in ranked if rank == 0}
        assert scenario.contest.pairs(c for _, c in ranked)[0].kind == "headline"
