"""The group of peers: who takes part and is compared, what is left out, and a real run of some of it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from ftbench.arguments import choose_scenarios
from ftbench.document.model import Verdict
from ftbench.document.store import load
from ftbench.plan.candidates import CONFIGS, VARIANTS
from ftbench.plan.comparisons import Comparison, ComparisonPlan, Side, at_least, at_most
from ftbench.plan.scenario import Task
from ftbench.report import verdict_words
from ftbench.rounds.controller import ESSENTIAL
from ftbench.rounds.measurement import Measurement
from ftbench.rounds.twins import Twins
from ftbench.scenarios import GROUPS, SCENARIOS, members
from ftbench.stats.analysis import analyse
from ftbench.stats.statistics import Reached
from tests.unit.bench.scripted import Noted, options
from tests.unit.bench.turns import first_line

PEERS = [scenario for scenario in SCENARIOS.values() if scenario.group == "peers"]


@pytest.mark.parametrize("scenario", PEERS, ids=lambda s: s.name)
def test_every_target_has_its_candidates_until_the_last(scenario):
    ranked = scenario.plan.ranked(CONFIGS, [1, 2], quick=False)
    keys = [c.key for _, c in ranked]
    assert len(keys) == len(set(keys)) <= 11
    pairs = scenario.plan.pairs(c for _, c in ranked)
    assert len(pairs) == len(scenario.plan.comparisons)
    assert pairs[0].target is not None
    ranks = {c.key: rank for rank, c in ranked}
    for pair in pairs:
        if pair.target is not None:
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
    assert [(p.numerator, p.denominator) for p in plan.pairs(one)] == [("ft/loader-thread/1", "gil/torch-process/1")]


def test_without_a_target_quick_leaves_it_out():
    ours, torch, other = Side("ft", "loader-thread"), Side("gil", "torch-process"), Side("ft", "spdl")
    plan = ComparisonPlan((Comparison(ours, torch, at_most(1)), Comparison(ours, other)))
    assert {c.variant for _, c in plan.ranked(CONFIGS, [2], quick=True)} == {"loader-thread", "torch-process"}
    assert "spdl" in {c.variant for _, c in plan.ranked(CONFIGS, [2], quick=False)}


def test_names_agree_everywhere():
    for scenario in SCENARIOS.values():
        for _, c in scenario.plan.ranked(CONFIGS, [2], quick=False):
            assert c.variant in VARIANTS and VARIANTS[c.variant].title in c.title


def test_groups_and_all():
    assert [s.name for s in choose_scenarios(["peers"])] == [s.name for s in PEERS]
    assert [s.name for s in choose_scenarios(["all"])] == list(SCENARIOS)
    assert [s.name for s in choose_scenarios(["peers-raw", "peers"])][0] == "peers-raw"
    assert len(choose_scenarios(["peers-raw", "peers"])) == len(PEERS)
    assert [s.name for s in choose_scenarios([])] == ["pillow", "text"]
    assert members("nothing") == [] and {"peers", "raw"} <= set(GROUPS)


def test_list_shows_the_groups(run_bench):
    lines = run_bench("--list").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("peers "))
    members_of_it = lines[at + 1 : lines.index("", at)]
    assert [line.split()[0] for line in members_of_it] == [s.name for s in PEERS]
    assert all(line.startswith("  ") for line in members_of_it)


def test_a_peer_that_is_not_installed_is_left_out_and_said():
    display, scenario = Noted(), SCENARIOS["peers-pillow-128"]
    everything = {"torch": "2", "torchdata": "0.11.0", "spdl-core": "0.8.0"}
    twins = Twins(
        environments={
            twin: {"packages": packages, "cpu": {"usable": 2}}
            for twin, packages in (("ft", {"torch": "2", "spdl-core": "0.8.0"}), ("gil", everything))
        }
    )
    ranked = Measurement(scenario, options(scenario.name, quick=False), twins, display).ranked()
    keys = {c.key for _, c in ranked}
    assert "ft/nodes-thread/2" not in keys and {"gil/nodes-thread/2", "ft/spdl/2", "ft/loader-thread/2"} <= keys
    (left_out,) = display.results.skipped
    assert left_out.what == "peers-pillow-128: ft torchdata.nodes threads x2"
    assert "torchdata not installed in the ft twin" in left_out.why and "requirements.lock" in left_out.why
    assert display.notes == [f"left out: {left_out.what}: {left_out.why}"]
    # Its comparison is gone with it, the others stay.
    pairs = SCENARIOS["peers-pillow-128"].plan.pairs(c for _, c in ranked)
    assert len(pairs) == len(SCENARIOS["peers-pillow-128"].plan.comparisons) - 1


@pytest.fixture(scope="module")
def peers_run(run_bench, photos, twin, tmp_path_factory):
    """(CompletedProcess, document) of one round of the first scenario of peers in this twin."""
    out = tmp_path_factory.mktemp("peers")
    done = run_bench(
        "peers-pillow-128",
        "--quick",
        "--data",
        photos,
        "--out",
        out,
        "--configs",
        twin,
        "--workers",
        2,
        "--batch-size",
        2,
        "--rounds",
        1,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return done, load(out / "latest/results.json"), out / "latest"


@pytest.mark.timeout(400)
def test_a_run_of_peers(peers_run, twin):
    done, document, directory = peers_run
    (scenario,) = document.scenarios
    assert (scenario.group, scenario.metrics[0]) == ("peers", "throughput")
    (only,) = scenario.rounds
    wanted = {c.key for _, c in SCENARIOS["peers-pillow-128"].plan.ranked((twin,), [2], quick=True)}
    lacking = {
        c
        for c in wanted
        for each in document.skipped
        if "not installed" in each.why and VARIANTS[c.split("/")[1]].title in each.what
    }
    assert {trial.candidate for trial in only.trials} == wanted - lacking
    # All decoded the same pixels, the loop without a loader included.
    assert len({(t.first_batch, tuple(t.rows)) for t in only.trials}) == 1
    assert all(t.metrics["throughput"] > 0 for t in only.trials)
    titles = {c.variant: c.title for c in scenario.candidates}
    for variant, title in titles.items():
        assert VARIANTS[variant].title in title and VARIANTS[variant].title in done.stdout
    assert (directory / "peers-pillow-128.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.timeout(400)
def test_targets_are_printed_with_what_came_of_them(peers_run):
    done, document, directory = peers_run
    (scenario,) = analyse(document).scenarios
    wanted = [c for c in scenario.comparisons if c.target]
    assert wanted and all(c.reached == Reached.UNCLEAR for c in wanted)  # one round shows nothing
    page = (directory / "report.html").read_text()
    for c in wanted:
        assert verdict_words.target(c) in done.stdout and verdict_words.target(c).replace(">", "&gt;") in page
    assert all(c.metric == "throughput" for c in wanted)
    # Told without a target too: memory and the first batch.
    assert {c.metric for c in scenario.comparisons} == {"throughput", "time_to_first_batch", "pss_mib"}


def trial(command, environment, twin: str, **task: object) -> dict:
    """One trial's result, as an endpoint gets it."""
    done = subprocess.run(
        command(module="ftbench.trial.child"),
        input=first_line(Task(config=twin, prefetch_factor=2, **task)) + b"\n\n",
        capture_output=True,
        timeout=200,
        env={**environment, "PYTHON_GIL": "0"} if twin == "ft" else environment,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "name, metrics",
    [
        ("peers-startup", {"time_to_first_batch"}),
        ("peers-overhead-int", {"overhead_us", "time_to_first_batch", "pss_mib"}),
    ],
)
def test_trials_of_the_other_measurements(command, environment, twin, photos, name, metrics):
    paths = sorted(map(str, photos.iterdir())) if SCENARIOS[name].source == "images" else []
    found = [
        trial(
            command,
            environment,
            twin,
            scenario=SCENARIOS[name],
            paths=paths,
            variant=variant,
            workers=2,
            batch_size=3,
            warmup_batches=2,
            batches=4,
        )
        for variant in ("loader-thread", "torch-process")
    ]
    for result in found:
        assert set(result["metrics"]) == metrics and all(value > 0 for value in result["metrics"].values())
        assert result["batches"] == 4 <= len(result["rows"])
    assert [found[0][part] for part in ("first_batch", "rows")] == [found[1][part] for part in ("first_batch", "rows")]


def test_words_for_targets(peers_run):
    _, document, _ = peers_run
    (scenario,) = analyse(document).scenarios
    one = next(c for c in scenario.comparisons if c.target)
    figures = {"ratio": 2.0, "low": 1.95, "high": 2.05, "n": 5, "verdict": Verdict.ABOVE}
    comparison = replace(one, **figures, target=at_least(1.9), reached=Reached.MET)
    assert verdict_words.target(comparison) == ">= 1.9x: met"
    sentence = verdict_words.conclusion(scenario, [comparison])
    assert ": 100% faster (95% to 105%); target >= 1.9x: met." in sentence


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


def test_a_trial_ends_well_whatever_threads_a_peer_leaves(environment, twin):
    """CPython 3.13 unwinds daemon threads at its end, which aborts a process that is in C++ code."""
    task = Task(SCENARIOS["peers-overhead-tensor"], [], "loader-thread", 1, 4, 1, 2, 2, config=twin)
    done = subprocess.run(
        [sys.executable, "-P", "-c", WITH_DAEMON_THREADS],
        input=first_line(task) + b"\n\n",
        timeout=200,
        capture_output=True,
        env={**environment, "PYTHON_GIL": "0"} if twin == "ft" else environment,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout.splitlines()[-1])["batches"] == 2
