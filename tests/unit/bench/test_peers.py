"""The group of peers: who takes part and is compared,
what is left out, and a real run of some of it.
"""

import json
import subprocess
import sys

import pytest

from ftbench.arguments import choose_scenarios
from ftbench.plan.candidates import CONFIGS, VARIANTS
from ftbench.plan.scenario import Task
from ftbench.rounds.controller import ESSENTIAL
from ftbench.rounds.measurement import Measurement
from ftbench.rounds.twins import Twins
from ftbench.scenarios import GROUPS, SCENARIOS, members
from tests.unit.bench.scripted import Noted, options
from tests.unit.bench.turns import first_line, task_of, without_pause

PEERS = [scenario for scenario in SCENARIOS.values() if scenario.group == "peers"]


@pytest.mark.parametrize("scenario", PEERS, ids=lambda s: s.name)
def test_what_is_asked_for_has_its_candidates_until_the_last(scenario):
    ranked = scenario.plan.ranked(CONFIGS, [1, 2], quick=False)
    keys = [c.key for _, c in ranked]
    assert len(keys) == len(set(keys)) <= 11
    pairs = scenario.plan.pairs(c for _, c in ranked)
    assert len(pairs) == len(scenario.plan.comparisons)
    assert pairs[0].asked
    ranks = {c.key: rank for rank, c in ranked}
    for pair in pairs:
        if pair.asked:
            assert max(ranks[pair.numerator], ranks[pair.denominator]) <= ESSENTIAL
    # The first comparison stays, whatever has to go.
    first = [c for rank, c in ranked if rank == 0]
    assert {pairs[0].numerator, pairs[0].denominator} <= {c.key for c in first}
    assert scenario.plan.pairs(first)[0] == pairs[0]


def test_one_worker_is_compared_with_many_and_not_with_itself():
    plan = SCENARIOS["peers-memory"].plan
    many = [c for _, c in plan.ranked(CONFIGS, [2, 4], quick=False)]
    assert {c.workers for c in many} == {1, 4}
    assert plan.pairs(many)[0].denominator == "ft/loader-thread/1"
    one = [c for _, c in plan.ranked(CONFIGS, [1], quick=False)]
    assert len({c.key for c in one}) == len(one)
    assert [(p.numerator, p.denominator) for p in plan.pairs(one)] == [
        ("ft/loader-thread/1", "gil/torch-process/1")
    ]


def test_groups_and_all():
    assert [s.name for s in choose_scenarios(["peers"])] == [s.name for s in PEERS]
    assert [s.name for s in choose_scenarios(["peers-raw", "peers"])][0] == "peers-raw"
    assert len(choose_scenarios(["peers-raw", "peers"])) == len(PEERS)
    assert members("nothing") == [] and {"peers", "raw"} <= set(GROUPS)


def test_a_peer_that_is_not_installed_is_left_out_and_said():
    display, scenario = Noted(), SCENARIOS["peers-pillow-128"]
    everything = {"torch": "2", "torchdata": "0.11.0", "spdl-core": "0.8.0"}
    twins = Twins(
        environments={
            twin: {"packages": packages, "cpu": {"usable": 2}}
            for twin, packages in (
                ("ft", {"torch": "2", "spdl-core": "0.8.0"}),
                ("gil", everything),
            )
        }
    )
    ranked = Measurement(scenario, options(scenario.name, quick=False), twins, display).ranked()
    keys = {c.key for _, c in ranked}
    assert (
        "ft/nodes-thread/2" not in keys
        and {"gil/nodes-thread/2", "ft/spdl/2", "ft/loader-thread/2"} <= keys
    )
    (left_out,) = display.results.skipped
    assert left_out.what == "peers-pillow-128: ft torchdata.nodes threads x2"
    assert (
        "torchdata not installed in the ft twin" in left_out.why
        and "requirements.lock" in left_out.why
    )
    assert display.notes == [f"left out: {left_out.what}: {left_out.why}"]
    # Its comparison is gone with it, the others stay.
    pairs = SCENARIOS["peers-pillow-128"].plan.pairs(c for _, c in ranked)
    assert len(pairs) == len(SCENARIOS["peers-pillow-128"].plan.comparisons) - 1


@pytest.mark.slow
def test_a_run_of_peers(special, special_run):
    scenario = special("peers-pillow-128")
    assert (scenario.group, scenario.metrics[0]) == ("peers", "throughput")
    assert all(t.metrics["throughput"] > 0 for t in scenario.rounds[0].trials)
    for c in scenario.candidates:
        assert (
            VARIANTS[c.variant].title in c.title
            and VARIANTS[c.variant].title in special_run.printed
        )
    assert (special_run.directory / "peers-pillow-128.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    "name, metrics",
    [
        ("peers-startup", {"time_to_first_batch"}),
        ("peers-overhead-int", {"overhead_us", "time_to_first_batch", "memory_mib"}),
        ("peers-shapes-ragged", {"throughput", "time_to_first_batch", "memory_mib"}),
        ("peers-shapes-leaves", {"throughput", "time_to_first_batch", "memory_mib"}),
    ],
)
@pytest.mark.slow
def test_the_other_measurements(paths, name, metrics):
    scenario = SCENARIOS[name]
    paths = paths if scenario.source == "images" else []
    found = [
        without_pause(scenario.measure(task_of(name, paths, variant)))
        for variant in ("loader-thread", "torch-process")
    ]
    for result in found:
        assert (
            set(scenario.metrics) == metrics <= set(result["metrics"])
            and min(result["metrics"].values()) > 0
        )
        assert result["batches"] == 4 <= len(result["rows"])
    assert [found[0][part] for part in ("first_batch", "rows")] == [
        found[1][part] for part in ("first_batch", "rows")
    ]


# Threads of another library that are inside of torch's C++ code when the trial has answered.
WITH_DAEMON_THREADS = """
import runpy, sys, threading, torch
torch.set_num_threads(1)
parts, begun = [torch.zeros(500, 500)] * 20, threading.Event()
def forever():
    while True:
        torch.stack(parts)
        begun.set()
threading.Thread(target=forever, daemon=True).start()
begun.wait()
sys.argv = ["trial"]
runpy.run_module("ftbench.trial.child", run_name="__main__")
"""


@pytest.mark.slow
def test_a_trial_ends_well_whatever_threads_a_peer_leaves(environment, twin):
    """CPython 3.13 unwinds daemon threads at its end,
    which aborts a process that is in C++ code.
    """
    task = Task(SCENARIOS["peers-overhead-tensor"], [], "loader-thread", 1, 4, 1, 2, 2, config=twin)
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITH_DAEMON_THREADS],
        input=first_line(task) + b"\n\n",
        capture_output=True,
        env={**environment, "PYTHON_GIL": "0"} if twin == "ft" else environment,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout.splitlines()[-1])["batches"] == 2
