"""Outcomes of a cluster's tasks are added up, and answers of workers
that are not as they should be are refused.
"""

import contextlib
import json
from dataclasses import replace

import pytest

from ftrun.configurations import CONFIGURATIONS
from ftrun.environment import source_hash
from ftrun.errors import TwinError
from ftrun.interruption import Interruption
from ftsafety.repro import cluster
from ftsafety.repro.cluster import ClusterCampaign
from ftsafety.repro.options import ReproOptions
from ftsafety.repro.outcome import Kind, Outcome
from ftsafety.repro.progress import ProgressPrinter
from ftsafety.repro.script import Script

PYTHON = dict.fromkeys(("version", "executable", "build", "compiler", "config_args"), "")
DESCRIBED = {
    "interpreter": {**PYTHON, "twin": "ft", "upstream_fixes": 0},
    "packages": {"numpy": "2.1"},
    "cpu": {"model": "a processor", "usable": 1, "count": 1},
    "memory": {"total": 1},
    "os": {"name": "", "kernel": "", "container": None},
    "source": "",
}
OK = Outcome(Kind.OK, "")


def answer(configs=CONFIGURATIONS, outcomes=(OK,), **changes):
    """Return the answer of a task in which each of *configs* had these outcomes."""
    runs = {"missing": None, "outcomes": [outcome.as_json() for outcome in outcomes]}
    return {
        "source": source_hash(),
        "twins": {CONFIGURATIONS[config].twin: DESCRIBED for config in configs},
        "added": {},
        "missing": {},
        "remarks": [],
        "runs": dict.fromkeys(configs, runs),
        **changes,
    }


def task(content, node="node", rounds=1):
    """Return the messages about a task whose output is *content*."""
    output = content if isinstance(content, str) else json.dumps(content)
    return [
        {"piece": output[:99]},
        {"piece": output[99:]},
        {"rounds": rounds, "node": node, "error": ""},
    ]


@pytest.fixture
def run(monkeypatch):
    """Return a function that makes a campaign on a cluster that sends these messages;
    and the campaign.
    """

    def run(*tasks, repeat=None, configs=CONFIGURATIONS, enough=lambda runs, rounds: False):
        @contextlib.contextmanager
        def connected(*_):
            yield iter([{"threads": 2}, *(message for messages in tasks for message in messages)])

        monkeypatch.setattr(cluster, "connected", connected)
        options = ReproOptions(Script("bug.py", b""), dask="tcp://host:1", dask_python="python3")
        campaign = ClusterCampaign(options, Interruption(), ProgressPrinter())
        return campaign.run(configs, repeat or len(tasks), 2, enough=enough), campaign

    return run


def test_outcomes_are_added_up(run):
    details = [
        [replace(OK, detail=str(number)) for number in numbers] for numbers in ((1, 2), (3,))
    ]
    tasks = [task(answer(outcomes=details[0]), "a", 2), task(answer(outcomes=details[1]), "b")]
    found, campaign = run(*tasks, repeat=3)
    for runs in found.values():
        assert [(outcome.detail, outcome.node) for outcome in runs.outcomes] == [
            ("1", "a"),
            ("2", "a"),
            ("3", "b"),
        ]
        assert runs.missing is None
    assert [*campaign.nodes] == ["a", "b"] and set(campaign.descriptions) == {"ft", "gil"}


def test_a_campaign_ends_early_after_a_task(run):
    rounds = []
    found, campaign = run(
        *[task(answer())] * 9, enough=lambda runs, number: rounds.append(number) or number == 2
    )
    assert rounds == [1, 2] and len(found["ft"].outcomes) == 2 and campaign.stopped is None


def test_an_import_that_turns_the_gil_on_is_counted_once(run):
    one = answer(["ft"], [Outcome(Kind.GIL, "x"), OK])
    found, _ = run(task(one), task(one), configs=["ft"])
    assert [outcome.kind for outcome in found["ft"].outcomes] == [Kind.GIL, Kind.OK, Kind.OK]
    assert found["ft"].forced_off


def test_a_lost_task_costs_its_rounds_alone_and_more_than_the_others_end_the_campaign(run):
    lost = [{"rounds": 1, "lost": "KilledWorker"}]
    found, campaign = run(task(answer()), lost, task(answer()))
    assert (
        len(found["ft"].outcomes) == 2
        and found["ft"].missing == "1 of 3 rounds were lost: KilledWorker"
    )
    assert campaign.stopped is None
    found, campaign = run(task(answer()), lost, lost, task(answer()))
    assert len(found["ft"].outcomes) == 1
    assert campaign.stopped == "ended after 1 of 4 rounds: KilledWorker"
    with pytest.raises(TwinError, match="KilledWorker"):
        run(lost, task(answer()))


RUNS = answer(["ft"])["runs"]["ft"]
OTHER = {"ft": {**DESCRIBED, "packages": {"numpy": "2.2"}}}
WRONG = {
    "has other sources": answer(["ft"], source="0"),
    "is not equal to first, in the twin ft: numpy 2.1 (first), 2.2 (node)": answer(
        ["ft"], twins=OTHER
    ),
    "its answer has another form": answer(["ft"], twins={}),
    "node: its answer has another form": answer(["gil"]),
    "another form": answer(["ft"], runs={"ft": {**RUNS, "outcomes": [{}]}}),
    "not an outcome": answer(
        ["ft"], runs={"ft": {**RUNS, "outcomes": [{**OK.as_json(), "kind": "x"}]}}
    ),
    "a task wrote nothing": "",
    "wrote nothing": "\x1b[31m" + "[" * 100_000,
}


@pytest.mark.parametrize("words", WRONG)
def test_a_node_whose_answer_is_wrong_ends_the_campaign_and_is_named(run, words):
    found, _ = run(
        task(answer(["ft"]), "first"), task(WRONG[words]), task(answer(["ft"])), configs=["ft"]
    )
    missing = found["ft"].missing
    assert (
        words in missing
        and "node" in missing
        and missing.isprintable()
        and len(found["ft"].outcomes) == 1
    )
    if words != "is not equal to first, in the twin ft: numpy 2.1 (first), 2.2 (node)":
        with pytest.raises(TwinError, match="node"):
            run(task(WRONG[words]), configs=["ft"])


def test_a_twin_that_is_lost_on_a_node_is_named(run):
    found, _ = run(
        task(answer(["ft"], runs={"ft": {**RUNS, "missing": "lost in run 2"}})), configs=["ft"]
    )
    assert found["ft"].missing == "node: lost in run 2"
