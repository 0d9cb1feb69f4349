"""Remote storage: samples from a server that is late, through each client."""

import pickle
import time

import numpy
import pytest

from ftbench.data.clients import READ
from ftbench.data.slow_server import content, slow_server
from ftbench.plan.candidates import CONFIGS
from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS, members
from ftbench.scenarios.latency import SAMPLE_BYTES, RemoteSamples
from tests.unit.bench.turns import without_pause

LIBRARIES = {"requests": ("requests",), "obstore": ("obstore",), "fsspec": ("fsspec", "aiohttp")}
CLIENTS = pytest.mark.parametrize("client", LIBRARIES)


def need(client: str) -> None:
    for library in LIBRARIES[client]:
        pytest.importorskip(
            library, reason=f"{library} is not installed here; it is in docker/requirements.lock"
        )


def test_a_scenario_for_each_client():
    assert [each.name for each in members("latency")] == [
        f"latency-{client}" for client in LIBRARIES
    ]
    assert set(READ) == set(LIBRARIES)


@CLIENTS
@pytest.mark.slow(cases=1)
def test_samples_are_what_the_server_has(client):
    need(client)
    with slow_server(0.0, SAMPLE_BYTES) as server:
        dataset = pickle.loads(pickle.dumps(RemoteSamples(server, client)))
        for index in (0, 17):
            sample = dataset[index]
            assert sample.dtype == numpy.uint8 and sample.flags.writeable
            assert sample.tobytes() == content(index, SAMPLE_BYTES)


@pytest.mark.parametrize("client", ["requests", "fsspec"])
@pytest.mark.slow
def test_threads_and_processes_give_the_same_and_no_sample_comes_early(client):
    need(client)
    scenario, found = SCENARIOS[f"latency-{client}"], []
    for variant in ("loader-thread", "loader-process"):
        parameters = scenario.case("50-ms").parameters
        turn = scenario.measure(Task(scenario, [], variant, 4, 2, 4, 8, 2, "50-ms", parameters))
        next(turn)  # up to its start
        begin = time.monotonic()
        result = without_pause(turn)
        # Four workers wait for each sample, so more than 4 / 0.05 s of them cannot come.
        assert 0 < 2 * len(result["rows"]) < 80 * (time.monotonic() - begin)
        assert result["metrics"]["throughput"] > 0
        assert result["metrics"]["time_to_first_batch"] >= 0.049
        # two a worker: timed also by a slow machine
        assert (result["batches"], result["last_batch"]) == (8, 2)
        found.append((result["first_batch"], result["rows"]))
    assert found[0] == found[1]


@pytest.mark.slow
def test_threads_and_processes_give_the_same_with_obstore(run_trial):
    """A process for each, as in a run: one that has read
    with obstore may not fork workers that do.
    """
    need("obstore")
    work = {"workers": 4, "batch_size": 2, "warmup_batches": 4, "batches": 20}
    found = [
        run_trial("latency-obstore", variant, "50-ms", **work)
        for variant in ("loader-thread", "loader-process")
    ]
    assert (
        found[0]["rows"] == found[1]["rows"] and found[0]["first_batch"] == found[1]["first_batch"]
    )
    assert all(each["metrics"]["time_to_first_batch"] >= 0.049 for each in found)


def test_a_quick_run_asks_what_is_left_of_the_delay_of_two_candidates():
    scenario = SCENARIOS["latency-requests"]
    candidates = [c for _, c in scenario.plan.ranked(CONFIGS, scenario.workers(2), quick=True)]
    assert {c.key for c in candidates} == {
        f"{who}/64@{case}"
        for who in ("ft/loader-thread", "gil/loader-process")
        for case in ("50-ms", "0-ms")
    }
    pairs = scenario.plan.pairs(candidates)
    assert [(p.numerator, p.denominator) for p in pairs[:2]] == [
        (f"{who}/64@50-ms", f"{who}/64@0-ms") for who in ("ft/loader-thread", "gil/loader-process")
    ]
    assert {p.kind for p in pairs} == {"headline"}


def test_many_more_workers_than_cores():
    scenario = SCENARIOS["latency-requests"]
    assert set(scenario.workers(2)) == {2, 4, 8, 16, 32, 64}
    assert set(scenario.workers(12)) == {2, 4, 8, 12, 16, 32, 64}
    assert set(scenario.workers(96)) == {2, 4, 8, 16, 32, 64, 96}


@pytest.mark.slow
def test_a_run(special, special_run):
    assert special("latency-requests").cases[0].title in special_run.printed


@pytest.mark.slow
def test_a_run_of_files_that_are_not_in_memory(special, special_run):
    """Or not, where files cannot be dropped from the page cache; the scenario says so."""
    if skipped := [s for s in special_run.record.skipped if s.what == "raw-cache"]:
        assert "stay in the page cache" in skipped[0].why
    else:
        assert special("raw-cache").note.startswith("cold is this kernel's page cache")
