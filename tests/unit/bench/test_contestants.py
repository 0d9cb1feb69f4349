"""Who takes part, who is given up first, and who is compared with whom."""

from __future__ import annotations

import pytest

from ftbench.plan.contestants import CONFIGS, Contestant, reduce, worker_counts
from ftbench.plan.grid import Grid

candidates, pairs = Grid().candidates, Grid().pairs


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


def test_full_run_has_every_contestant_once():
    keys = [c.key for _, c in candidates(CONFIGS, [1, 2], quick=False)]
    assert len(keys) == len(set(keys)) == 3 * 2 * 2


def test_middle_worker_counts_are_given_up_first_and_the_headline_never():
    ranked = candidates(CONFIGS, [1, 2, 4, 8], quick=False)
    kept, dropped = reduce(ranked, len(ranked) - 1)
    assert {c.workers for c in dropped} == {2}
    kept, dropped = reduce(ranked, 12)
    assert {c.workers for c in kept} == {1, 8}
    kept, dropped = reduce(ranked, 1)
    assert {c.key for c in kept} == {"gil/loader-process/8", "ft/loader-thread/8", "ft-gil/loader-thread/8"}
    assert len(kept) + len(dropped) == len(ranked)


def test_who_takes_long_is_given_up_for_good():
    """By the time of its own trials, not by the mean of all."""
    quick, slow = Contestant("ft", "loader-thread", 1), Contestant("gil", "loader-spawn", 1)
    assert reduce([(0, quick), (1, slow)], 3.0, {quick: 1.0, slow: 3.0}.get) == ([quick], [slow])
    assert reduce([(0, quick), (1, slow)], 4.0, {quick: 1.0, slow: 3.0}.get) == ([quick, slow], [])


def test_pairs_hold_only_what_was_measured_and_the_headline_comes_first():
    found = pairs(c for _, c in candidates(CONFIGS, [1, 2], quick=False))
    assert [p.kind for p in found[:2]] == ["headline", "headline"]
    assert found[0].numerator == "ft/loader-thread/2" and found[0].denominator == "gil/loader-process/2"
    kinds = {p.kind for p in found}
    assert kinds == {"headline", "gil", "build", "method", "scaling"}
    assert {p.kind for p in pairs(c for _, c in candidates(("gil",), [2], quick=False))} == {"method"}
