"""Starting: rows of a table by workers started in every way, and nothing of them is left."""

import json
import os
import pickle
import subprocess

import numpy
import pytest

from ftbench.data.sources import Sources
from ftbench.plan.candidates import CONFIGS, VARIANTS
from ftbench.plan.scenario import Task
from ftbench.rounds.measurement import Measurement
from ftbench.rounds.twins import Twins
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.startup import TableRows
from ftrun.environment import MIB
from tests.processes import wait_until
from tests.unit.bench.scripted import Noted, options
from tests.unit.bench.turns import first_line

SCENARIO = SCENARIOS["startup"]
METRICS = {"time_to_first_batch", "epoch_gap", "epoch_gap_persistent"}


def test_a_table_has_its_size_and_its_rows():
    table = TableRows(MIB)
    assert len(pickle.dumps(table)) > MIB and len(table) == 128
    assert numpy.array_equal(table[3], numpy.arange(3 * 1024, 4 * 1024))


@pytest.mark.slow
def test_threads_and_forked_processes_give_the_same_rows():
    found = []
    for variant in ("loader-thread", "loader-process"):
        result = SCENARIO.measure(
            Task(SCENARIO, [], variant, 2, 4, 2, 8, 2, "1-MiB", {"bytes": MIB})
        )
        assert set(result["metrics"]) == METRICS and min(result["metrics"].values()) > 0
        assert (result["batches"], result["last_batch"], len(result["rows"])) == (8, 4, 10)
        # The second epochs begin where the first did.
        assert result["rows"][-1] == result["rows"][-2] == result["rows"][0]
        found.append((result["first_batch"], result["rows"]))
    assert found[0] == found[1]


def has_ended(group: int) -> bool:
    """True if no process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    "variant",
    [
        "loader-forkserver",
        pytest.param(
            "loader-spawn",
            marks=pytest.mark.long(reason="as the other, and each worker imports torch"),
        ),
    ],
)
@pytest.mark.slow
def test_processes_that_are_not_forked(command, environment, twin, variant):
    """A real trial, whose workers, server and resource tracker go with it."""
    task = Task(SCENARIO, [], variant, 1, 4, 1, 4, 2, "1-MiB", {"bytes": MIB}, config=twin)
    with subprocess.Popen(
        command(module="ftbench.trial.child"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**environment, "PYTHON_GIL": "0"} if twin == "ft" else environment,
    ) as trial:
        output, errors = trial.communicate(first_line(task) + b"\n")
    assert trial.returncode == 0, errors.decode()
    assert wait_until(lambda: has_ended(trial.pid))
    result = json.loads(output.splitlines()[-1])
    expected = SCENARIO.measure(
        Task(SCENARIO, [], "loader-thread", 1, 4, 1, 4, 2, "1-MiB", {"bytes": MIB})
    )
    assert set(result["metrics"]) == METRICS and min(result["metrics"].values()) > 0
    assert (result["first_batch"], result["rows"]) == (expected["first_batch"], expected["rows"])


def test_processes_whose_copies_do_not_fit_are_left_out_and_said():
    """1 GiB, times the processes that would have a copy;
    threads share one, and smaller ones stay.
    """
    display = Noted()
    twins = Twins(
        environments=dict.fromkeys(
            ("ft", "gil"), {"memory": {"available": 5 << 30, "shm_free": 1 << 30}}
        )
    )
    candidates = [c for _, c in SCENARIO.plan.ranked(CONFIGS, [4], quick=False)]
    sources = Sources(None, lambda title: lambda done, total: None, print)
    work, found = Measurement(SCENARIO, options("startup", quick=False), twins, display).work(
        candidates, sources
    )
    assert set(work.cases) == {"1-MiB", "32-MiB", "256-MiB", "1-GiB"}
    with_processes = {c.case for c in found if VARIANTS[c.variant].processes}
    assert with_processes == {"1-MiB", "32-MiB", "256-MiB"} and {c.case for c in found} == set(
        work.cases
    )
    (left_out,) = display.results.skipped
    assert left_out.what == "startup: a dataset of 1 GiB: worker processes"
    assert "MiB of memory free, 4 workers need" in left_out.why and "--workers" in left_out.why
    assert display.notes == [f"left out: {left_out.what}: {left_out.why}"]
