"""Remote storage: samples through fsspec from a server that is late."""

import pickle
import time

import numpy
import pytest

from ftbench.data.slow_server import content, slow_server
from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.latency import SAMPLE_BYTES, RemoteSamples
from tests.unit.bench.turns import without_pause

pytest.importorskip("fsspec", reason="fsspec is not installed here; it is in docker/requirements.lock")
pytest.importorskip("aiohttp", reason="aiohttp is not installed here; it is in docker/requirements.lock")
SCENARIO = SCENARIOS["latency"]


def test_samples_are_what_the_server_has():
    with slow_server(0.0, SAMPLE_BYTES) as server:
        dataset = pickle.loads(pickle.dumps(RemoteSamples(server)))
        for index in (0, 17):
            sample = dataset[index]
            assert sample.dtype == numpy.uint8 and sample.flags.writeable
            assert sample.tobytes() == content(index, SAMPLE_BYTES)


def test_threads_and_processes_give_the_same_and_no_sample_comes_early():
    found = []
    for variant in ("loader-thread", "loader-process"):
        turn = SCENARIO.measure(Task(SCENARIO, [], variant, 4, 2, 4, 40, 2, "20-ms", {"delay": 0.02}))
        next(turn)  # up to its start
        begin = time.monotonic()
        result = without_pause(turn)
        # Four workers wait for each sample, so more than 4 / 0.02 s of them cannot come.
        assert 0 < 2 * len(result["rows"]) < 200 * (time.monotonic() - begin)
        assert result["metrics"]["throughput"] > 0
        assert result["metrics"]["time_to_first_batch"] >= 0.019
        assert (result["batches"], result["last_batch"]) == (40, 2)
        found.append((result["first_batch"], result["rows"]))
    assert found[0] == found[1]


def test_many_more_workers_than_cores():
    assert set(SCENARIO.workers(2)) == {2, 4, 8, 16, 32, 64}
    assert set(SCENARIO.workers(12)) == {2, 4, 8, 12, 16, 32, 64}
    assert set(SCENARIO.workers(96)) == {2, 4, 8, 16, 32, 64, 96}


def test_a_run(special, special_run):
    assert special("latency").cases[0].title in special_run.printed


def test_a_run_of_files_that_are_not_in_memory(special, special_run):
    """Or not, where files cannot be dropped from the page cache; the scenario says so."""
    if skipped := [s for s in special_run.record.skipped if s.what == "raw-cache"]:
        assert "stay in the page cache" in skipped[0].why
    else:
        assert special("raw-cache").note.startswith("cold is this kernel's page cache")
