"""Waterfalls: a chain's figures as results.json has them, and when a run knows enough of them."""

from __future__ import annotations

import copy
import math
from statistics import geometric_mean

import pytest

from ftbench.document.check import Inconsistent, check, seal
from ftbench.measure import epochs
from ftbench.plan.candidates import Candidate
from ftbench.plan.case import Case
from ftbench.plan.waterfall import STEP, TOTAL, WaterfallPlan
from ftbench.stats.statistics import analyse
from ftbench.stats.waterfall import ENDS, precise, waterfalls
from tests.unit.bench import documents, simulated

CASES = (Case("", "whole"), Case("half", "half of it"))


@pytest.fixture(scope="module")
def document() -> dict:
    """Of one configuration and of all three, the latter under two cases."""
    grown = simulated.document(simulated.blank(), 1)
    like = grown["scenarios"][0]
    grown["scenarios"].append(
        documents.scenario(like, "chain", CASES, "work", metrics=epochs.METRICS, plan=WaterfallPlan(CASES))
    )
    grown = documents.finished(grown)
    check(grown)
    return grown


def test_every_chain_is_there_with_all_its_steps(document):
    alone, whole, half = document["waterfalls"]
    assert [fall["workload"] for fall in (alone, whole, half)] == ["pillow", "chain: whole", "chain: half of it"]
    assert len(alone["steps"]) == 2 and len(alone["missing"]) == 2
    for fall in (whole, half):
        at = "@half" if fall is half else ""
        assert fall["workers"] == 2 and fall["missing"] == []
        assert [fall["start"]["candidate"], *(s["candidate"] for s in fall["steps"])] == [
            f"{who}/2{at}"
            for who in (
                "gil/torch-process",
                "gil/loader-process",
                "gil/loader-thread",
                "ft-gil/loader-thread",
                "ft/loader-thread",
            )
        ]
        assert [s["name"] for s in fall["steps"]][-2:] == ["the free-threaded build, GIL on", "the GIL removed"]


def test_figures_are_those_of_the_comparisons(document):
    scenario = document["scenarios"][1]
    fall = document["waterfalls"][1]
    values = {c["key"]: c["metrics"] for c in scenario["analysis"]["candidates"]}
    first, last = fall["start"]["candidate"], fall["steps"][-1]["candidate"]
    for metric, of in (("throughput", fall), ("cpu_per_1000", fall["cpu_per_1000"])):
        mine = [c for c in scenario["analysis"]["comparisons"] if c["metric"] == metric]
        for step in of["steps"]:
            (c,) = [c for c in mine if c["kind"] == STEP and c["numerator"] == step["candidate"]]
            assert [step[name] for name in ("ratio", "low", "high", "n", "resolution", "verdict")] == [
                c[name] for name in ("mean", "low", "high", "n", "resolution", "verdict")
            ]
        assert math.prod(s["ratio"] for s in of["steps"]) == pytest.approx(of["total"]["ratio"], rel=1e-12)
        trials = [trial for one in scenario["rounds"] for trial in one["trials"]]
        assert [of["start"]["value"], of["end"]] == [
            geometric_mean(trial["metrics"][metric] for trial in trials if trial["candidate"] == key)
            for key in (first, last)
        ]
    assert fall["ends"] == {name: [values[first][name]["median"], values[last][name]["median"]] for name in ENDS}
    # As planted: the build costs a fifth, removing the GIL makes 2.5 times as much.
    assert [s["ratio"] for s in fall["steps"]] == pytest.approx([1.0, 1.0, 0.8, 2.5], rel=0.03)
    assert fall["total"]["ratio"] == pytest.approx(2.0, rel=0.03) and fall["total"]["verdict"] == "faster"


def test_scenarios_without_a_chain_have_none(document):
    like = document["scenarios"][0]
    assert waterfalls([documents.scenario(like, "grid"), documents.scenario(like, "cases", documents.WORK)]) == []


@pytest.mark.parametrize(
    "failed, start, steps, missing",
    [
        ("ft/loader-thread", "torch DataLoader, processes", {"the free-threaded build, GIL on": 0.8}, ["ft"]),
        # A change that could not be measured by itself is part of the next one.
        (
            "ft-gil/loader-thread",
            "torch DataLoader, processes",
            {"threads instead of processes, GIL on": 1.0, "the free-threaded build, GIL removed": 2.0},
            ["ft-gil"],
        ),
        (
            "gil/loader-process",
            "torch DataLoader, processes",
            {"this loader, still processes; threads instead of processes, GIL on": 1.0, "the GIL removed": 2.5},
            ["loader processes"],
        ),
        ("gil/torch-process", "loader processes, GIL build", {"the GIL removed": 2.5}, ["torch DataLoader processes"]),
    ],
)
def test_who_failed_is_left_out_of_the_chain(document, failed, start, steps, missing):
    scenario = copy.deepcopy(document["scenarios"][1])
    values = {
        metric: {
            c["key"]: [
                t["metrics"][metric] for one in scenario["rounds"] for t in one["trials"] if t["candidate"] == c["key"]
            ]
            for c in scenario["candidates"]
            if not c["key"].startswith(failed)
        }
        for metric in scenario["metrics"]
    }
    candidates = [
        Candidate(*(c[n] for n in ("config", "variant", "workers", "case")))
        for c in scenario["candidates"]
        if c["key"] in values["throughput"]
    ]
    scenario["analysis"] = analyse(values, WaterfallPlan(CASES).pairs(candidates))
    whole, _ = waterfalls([scenario])
    ratios = {step["name"]: step["ratio"] for step in whole["steps"]}
    assert whole["start"]["name"] == start and whole["missing"] == missing
    assert {name: ratios.get(name) for name in steps} == pytest.approx(steps, rel=0.03)
    assert math.prod(ratios.values()) == pytest.approx(whole["total"]["ratio"], rel=1e-12)


@pytest.mark.parametrize(
    "change",
    [
        lambda falls: falls[1]["steps"][0].update(ratio=9.0),
        lambda falls: falls[1]["total"].update(low=1.9),
        lambda falls: falls[1]["cpu_per_1000"]["start"].update(value=1.0),
        lambda falls: falls.pop(),
        lambda falls: falls[1]["ends"].update(pss_mib=[1.0, 1.0]),
    ],
)
def test_a_changed_waterfall_is_noticed_even_with_a_new_seal(document, change):
    edited = copy.deepcopy(document)
    change(edited["waterfalls"])
    edited["seal"] = seal(edited)
    with pytest.raises(Inconsistent, match="its waterfalls are not those of its scenarios"):
        check(edited)


def known(*halves: float, n: int = 6, kinds: tuple[str, ...] = (), metric: str = "throughput") -> dict:
    """An analysis whose steps are known to so much, as factors' logarithms either way."""
    return {
        "comparisons": [
            {"asked": True, "kind": kind, "metric": metric, "n": n, "mean": 1.0}
            | {"low": math.exp(-half), "high": math.exp(half)}
            for half, kind in zip(halves, kinds or (TOTAL, *[STEP] * 9), strict=False)
        ]
    }


def test_enough_is_known_once_every_interval_is_as_narrow():
    assert precise(known(0.03, 0.02, 0.03), 0.05)
    assert not precise(known(0.03, 0.06, 0.03), 0.05) and precise(known(0.03, 0.06, 0.03), 0.07)
    # Too few rounds to stop, and nothing that was asked.
    assert not precise(known(0.001, 0.001, n=4), 0.05)
    assert not precise({"comparisons": []}, 0.05)
    # CPU time is asked as well, and nothing waits for it.
    wide = known(0.2, metric="cpu_per_1000")["comparisons"]
    assert precise({"comparisons": [*known(0.03)["comparisons"], *wide]}, 0.05)
    assert not precise(known(0.001, kinds=("chosen",)), 0.05)


def test_stopping_looks_at_widths_alone():
    """Where the intervals lie, on which side of 1 and what their verdicts say, changes nothing."""
    for half, expected in ((0.04, True), (0.06, False)):
        for mean in (0.1, 0.95, 1.0, 1.001, 7.0):
            analysis = known(half, half, half)
            for c in analysis["comparisons"]:
                c.update(mean=mean, low=c["low"] * mean, high=c["high"] * mean, verdict="whatever")
            assert precise(analysis, 0.05) is expected
