"""Remote storage: samples through fsspec from a server that is late; and real runs that leave nothing behind."""

from __future__ import annotations

import pickle
import time
import uuid

import numpy
import psutil
import pytest

from ftbench.data.images import cache_directory
from ftbench.data.slow_server import content, slow_server
from ftbench.document.model import Skipped
from ftbench.document.store import load
from ftbench.machine import page_cache
from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.latency import SAMPLE_BYTES, RemoteSamples
from tests.unit.bench.conftest import marked
from tests.unit.bench.turns import without_pause

pytest.importorskip("fsspec", reason="fsspec is not installed here; it is in docker/requirements.lock")
pytest.importorskip("aiohttp", reason="aiohttp is not installed here; it is in docker/requirements.lock")
SCENARIO = SCENARIOS["latency"]
pytestmark = [
    pytest.mark.thread_unsafe(reason="starts processes"),
    pytest.mark.timeout(400),
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
]


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


def test_real_runs_agree_and_leave_nothing_running(run_bench, environment, twin, tmp_path):
    """Of this scenario, with its server, and of raw-cache, with its files."""
    mark = uuid.uuid4().hex
    done = run_bench(
        "raw-cache",
        "latency",
        "--quick",
        "--rounds",
        1,
        "--workers",
        2,
        "--batch-size",
        2,
        "--configs",
        twin,
        "--out",
        tmp_path,
        timeout=380,
        env={**environment, "FT_BENCH_TEST_RUN": mark},
    )
    assert done.returncode == 0, done.stderr
    _, left = psutil.wait_procs(marked(mark), timeout=30)
    assert not left
    document = load(tmp_path / "latest/results.json")
    found = {scenario.name: scenario for scenario in document.scenarios}
    if why := page_cache.why_not_droppable(cache_directory()):
        assert "raw-cache" not in found and Skipped("raw-cache", why) in document.skipped
    else:
        assert found["raw-cache"].note.startswith("cold is this kernel's page cache")
    assert {c.name for c in found["latency"].cases} == {"5-ms", "50-ms", "200-ms"}
    for scenario in found.values():
        (only,) = scenario.rounds
        cases = {c.key: c.case for c in scenario.candidates}
        for case in {*cases.values()}:
            sums = {(t.first_batch, tuple(t.rows)) for t in only.trials if cases[t.candidate] == case}
            assert len(sums) == 1
        assert {key.split("/")[1] for key in cases} == {"loader-thread", "loader-process"}
        for case in scenario.cases:
            assert case.title in done.stdout
