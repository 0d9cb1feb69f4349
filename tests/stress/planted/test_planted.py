"""Planted races: the suite finds each, and none in its corrected version."""

import json
import os
import subprocess
import sys

import pytest

from tests.checkout import CHECKOUT, importable
from tests.processes import wait_until
from tests.programs import programs_to_end
from tests.stress import engine
from tests.stress.planted.races import CORRECTED, RACES, Crash, Deadlock, LostUpdateCorrected

# A race is looked for until it is found, up to this;
# a busy machine may need longer than the moment it takes.
LOOKED_FOR = 120.0


@pytest.mark.skipif(
    sys._is_gil_enabled(),
    reason="without the GIL only: with it these races are rare enough to be missed",
)
@pytest.mark.parametrize("race", RACES, ids=engine.name_of)
def test_race_is_found(run_scenario, race):
    result = run_scenario(race, seconds=LOOKED_FOR)
    # A decoder that two threads use may end the process, too.
    assert result["outcome"] in ("failed", "crashed"), result
    assert result["failures"]


@pytest.mark.parametrize("race", CORRECTED, ids=engine.name_of)
def test_corrected_version_passes(stress, race):
    stress(race)


def test_a_crash_is_reported_and_the_rest_goes_on(run_scenario):
    result = run_scenario(Crash, seconds=1)
    assert result["outcome"] == "crashed"
    assert "SIGABRT" in result["failures"][0]
    assert "in step" in result["failures"][0]
    assert run_scenario(LostUpdateCorrected, seconds=0.1)["outcome"] == "passed"


def test_a_hang_ends_with_the_stacks_of_all_threads(run_scenario):
    result = run_scenario(Deadlock, seconds=1, limit=10)
    assert result["outcome"] == "hung"
    assert result["failures"][0].count("in step") == 2, result


def test_an_interrupted_run_leaves_no_file(tmp_path):
    scenario = {
        "scenario": "tests.stress.scenarios.files:SqlitePerThread",
        "seconds": 1500,
        "limit": 0,
        "seed": 0,
    }
    environment = {**os.environ, "PYTHONPATH": importable(CHECKOUT), "TMPDIR": str(tmp_path)}
    with programs_to_end() as start:
        command = [sys.executable, "-m", "tests.stress.nursery"]
        nursery = start(command, cwd=CHECKOUT, env=environment, stdin=subprocess.PIPE)
        print(json.dumps(scenario), file=nursery.stdin, flush=True)
        assert wait_until(lambda: any(path.is_file() for path in tmp_path.rglob("*")))
        nursery.communicate()
    assert not list(tmp_path.iterdir())
