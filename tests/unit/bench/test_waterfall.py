"""Waterfalls: a chain's figures as results.json has them, and when a run knows enough of them."""

import copy
import itertools
import math
from dataclasses import replace
from statistics import geometric_mean

import pytest

from ftbench.document.check import check_form
from ftbench.document.convert import as_json, from_json
from ftbench.document.model import MeasuredScenario, Results, Round
from ftbench.measure import epochs
from ftbench.plan.candidates import Candidate, Pair
from ftbench.plan.case import Case
from ftbench.plan.waterfall import STEP, TOTAL, WaterfallPlan
from ftbench.stats.analysis import Analysis, analyse
from ftbench.stats.waterfall import precise
from tests.unit.bench import documents, simulated

CASES = (Case("", "whole"), Case("half", "half of it"))


@pytest.fixture(scope="module")
def run() -> Analysis:
    """Of one configuration and of all three, the latter under two cases."""
    grown = simulated.document(simulated.blank(), 1)
    like = grown.scenarios[0]
    grown.scenarios.append(
        documents.scenario(
            like, "chain", CASES, "work", metrics=epochs.METRICS, plan=WaterfallPlan(CASES)
        )
    )
    return analyse(grown)


def test_every_chain_is_there_with_all_its_steps(run):
    alone, whole, half = run.waterfalls
    assert [fall.workload for fall in (alone, whole, half)] == [
        "pillow",
        "chain: whole",
        "chain: half of it",
    ]
    assert len(alone.throughput.steps) == 2 and len(alone.missing) == 2
    for fall in (whole, half):
        at = "@half" if fall is half else ""
        assert fall.workers == 2 and fall.missing == []
        chain = (
            "gil/torch-process gil/loader-process gil/loader-thread ft-gil/loader-thread "
            "ft/loader-thread"
        ).split()
        assert fall.throughput.candidates == [f"{each}/2{at}" for each in chain]
        assert [step.name for step in fall.throughput.steps][-2:] == [
            "the free-threaded build, GIL on",
            "the GIL removed",
        ]


def test_figures_are_those_of_the_comparisons(run):
    scenario, fall = run.scenarios[1], run.waterfalls[1]
    first, *_, last = fall.throughput.candidates
    for metric, of in (("throughput", fall.throughput), ("cpu_per_1000", fall.cpu_per_1000)):
        mine = [c for c in scenario.comparisons if c.metric == metric]
        for step in of.steps:
            (c,) = [c for c in mine if c.kind == STEP and c.numerator.key == step.candidate]
            for name in ("ratio", "low", "high", "n", "resolution", "verdict"):
                assert getattr(step.change, name) == getattr(c.estimate, name)
        assert math.prod(step.change.ratio for step in of.steps) == pytest.approx(
            of.total.ratio, rel=1e-12
        )
        assert [of.start.value, of.end] == [
            geometric_mean(scenario.record.in_each_process(key, metric)) for key in (first, last)
        ]
    ends = "time_to_first_batch", "memory_mib"
    assert fall.ends == {
        name: [geometric_mean(scenario.record.in_each_process(key, name)) for key in (first, last)]
        for name in ends
    }
    # As planted: the build costs a fifth, removing the GIL makes 2.5 times as much.
    assert [step.change.ratio for step in fall.throughput.steps] == pytest.approx(
        [1.0, 1.0, 0.8, 2.5], rel=0.03
    )
    total = fall.throughput.total
    assert total.ratio == pytest.approx(2.0, rel=0.03) and total.verdict == "above"


def test_the_first_bar_names_the_start_method_that_all_its_trials_had(run):
    def name(*methods):
        scenario = copy.deepcopy(run.results.scenarios[1])
        for one, method in zip(scenario.rounds, itertools.cycle(methods)):
            for trial in one.trials:
                trial.start_method = method if "process" in trial.candidate else None
        return (
            analyse(replace(run.results, scenarios=[scenario])).waterfalls[0].throughput.start.name
        )

    assert name("forkserver") == "torch DataLoader, processes (forkserver)"
    assert name("fork", "spawn") == name(None) == "torch DataLoader, processes"


def test_scenarios_without_a_chain_have_none(run):
    like = run.results.scenarios[0]
    of = [
        documents.scenario(run.results.scenarios[0], "grid"),
        documents.scenario(run.results.scenarios[0], "c", documents.WORK),
    ]
    assert like.name == "pillow" and analyse(replace(run.results, scenarios=of)).waterfalls == []


@pytest.mark.parametrize(
    "failed, start, steps, missing",
    [
        (
            "ft/loader-thread",
            "torch DataLoader, processes",
            {"the free-threaded build, GIL on": 0.8},
            ["ft"],
        ),
        # A change that could not be measured by itself is part of the next one.
        (
            "ft-gil/loader-thread",
            "torch DataLoader, processes",
            {
                "threads instead of processes, GIL on": 1.0,
                "the free-threaded build, GIL removed": 2.0,
            },
            ["ft-gil"],
        ),
        (
            "gil/loader-process",
            "torch DataLoader, processes",
            {
                "this loader, still processes; threads instead of processes, GIL on": 1.0,
                "the GIL removed": 2.5,
            },
            ["loader processes"],
        ),
        (
            "gil/torch-process",
            "loader processes, GIL build",
            {"the GIL removed": 2.5},
            ["torch DataLoader processes"],
        ),
    ],
    # without the word that --quick takes for worker processes
    ids=["end", "ft-gil", "second", "start"],
)
def test_failed_candidates_are_left_out_of_the_chain(run, failed, start, steps, missing):
    scenario = run.results.scenarios[1]
    left = [c for c in scenario.candidates if not c.key.startswith(failed)]
    rounds = [
        replace(one, trials=[t for t in one.trials if not t.candidate.startswith(failed)])
        for one in scenario.rounds
    ]
    without = replace(scenario, rounds=rounds, pairs=WaterfallPlan(CASES).pairs(left))
    whole, _ = analyse(replace(run.results, scenarios=[without])).waterfalls
    ratios = {step.name: step.change.ratio for step in whole.throughput.steps}
    assert whole.throughput.start.name == start and whole.missing == missing
    assert {name: ratios.get(name) for name in steps} == pytest.approx(steps, rel=0.03)
    assert math.prod(ratios.values()) == pytest.approx(whole.throughput.total.ratio, rel=1e-12)


def test_copies_are_a_further_step_that_the_total_leaves_out(run):
    scenario = documents.with_copies(run.results.scenarios[0], 1.5)
    results = replace(run.results, scenarios=[scenario])
    results.waterfalls = analyse(results).waterfalls
    steps = results.waterfalls[0].throughput
    (copies,) = steps.further
    assert copies.candidate == "ft/loader-copies/2" and copies.name not in steps.changes
    assert copies.change.ratio == pytest.approx(1.5, rel=0.03) and copies.change.shown
    assert steps.candidates[-1] == "ft/loader-thread/2"
    assert steps.total.ratio == pytest.approx(2.0, rel=0.03)
    document = as_json(results)
    check_form(document)
    assert from_json(Results, document) == results
    # Without threads that share the dataset there is nothing to compare copies with.
    for finished in scenario.rounds:
        finished.trials = [t for t in finished.trials if not t.candidate.startswith("ft/loader-t")]
    scenario.pairs = WaterfallPlan(copies=True).pairs(scenario.whole)
    (fall,) = analyse(results).waterfalls
    assert fall.missing == ["ft"] and fall.throughput.further == []


def known(
    *halves: float, n: int = 8, kinds: tuple[str, ...] = (), at: float = 1.0
) -> MeasuredScenario:
    """A scenario whose pairs are known to factors' logarithms of *halves*,
    around the ratio *at*.
    """
    from scipy.stats import t

    (like,) = simulated.blank().scenarios
    start = Candidate("gil", "loader-thread", 0)
    others = [Candidate("ft", "loader-thread", number) for number in range(1, len(halves) + 1)]
    # Rounds that differ by one standard deviation either way, as wide as the interval is to be.
    wide = [half / (t.ppf(0.975, n - 1) * math.sqrt(1 / (n - 1))) for half in halves]
    rounds = []
    for number in range(n):
        side = 1 if number % 2 else -1
        of = {
            start: 100.0,
            **{c: 100.0 * at * math.exp(side * each) for c, each in zip(others, wide, strict=True)},
        }
        trials = [simulated.trial(c, dict.fromkeys(like.metrics, value)) for c, value in of.items()]
        rounds.append(Round(number + 1, 1.0, trials, simulated.quiet()))
    pairs = [
        Pair(kind, c.key, start.key, asked=True)
        for c, kind in zip(others, kinds or (TOTAL, *[STEP] * 9), strict=False)
    ]
    return replace(like, candidates=[start, *others], pairs=pairs, rounds=rounds)


def test_enough_is_known_once_every_interval_is_as_narrow():
    assert precise(known(0.03, 0.02, 0.03), 0.05)
    assert not precise(known(0.03, 0.06, 0.03), 0.05) and precise(known(0.03, 0.06, 0.03), 0.07)
    # Too few rounds to stop, and nothing that was asked.
    assert not precise(known(0.001, 0.001, n=7), 0.05)
    assert not precise(replace(known(0.001), pairs=[]), 0.05)
    assert not precise(known(0.001, kinds=("chosen",)), 0.05)


def test_stopping_looks_at_widths_alone():
    """Where the intervals lie, and on which side of 1, changes nothing."""
    for half, expected in ((0.04, True), (0.06, False)):
        for at in (0.1, 0.95, 1.0, 1.001, 7.0):
            assert precise(known(half, half, half, at=at), 0.05) is expected


def test_a_metric_that_is_a_ratio_is_known_once_no_candidate_varies_by_more():
    def measured(low: float, high: float, n: int) -> MeasuredScenario:
        like = known(*[0.01] * 2, n=n)
        for number, one in enumerate(like.rounds):
            for trial in one.trials:
                trial.metrics["slowdown_python"] = high if number % 2 else low
        return replace(like, metrics=["slowdown_python"], pairs=[])

    assert precise(measured(1.5, 1.55, 8), 0.05) and not precise(measured(1.5, 1.55, 7), 0.05)
    assert not precise(measured(1.2, 2.0, 8), 0.05)
