"""Fixtures that run scenarios, in children of a nursery process."""

import fcntl
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import CHECKOUT, importable
from tests.programs import end
from tests.stress import engine

SECONDS = 0.5
"""For each scenario, unless --minutes is given."""
HANG = 120.0
"""Seconds beyond its time after which a scenario counts as hung."""


class _Nursery:
    """The nursery process, started when it is first needed and again after it was lost."""

    def __init__(self):
        self._process = None

    def run(self, scenario, seconds, seed, limit=HANG):
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.stress.nursery"],
                cwd=CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": importable(CHECKOUT)},
            )
        request = {
            "scenario": f"{scenario.__module__}:{scenario.__qualname__}",
            "seconds": seconds,
            "seed": seed,
            "limit": limit,
        }
        print(json.dumps(request), file=self._process.stdin, flush=True)
        if not select.select([self._process.stdout], [], [], seconds + 2 * HANG)[0]:
            self.stop()
            pytest.fail("the process that runs the scenarios does not answer")
        answer = self._process.stdout.readline()
        if not answer:
            pytest.fail(f"the process that runs the scenarios has ended: {self._process.wait()}")
        return json.loads(answer)

    def stop(self):
        """End the process, which ends and removes all
        that scenarios have started and left behind.
        """
        if self._process is not None:
            end(self._process, HANG)
            self._process = None


@pytest.fixture(scope="session", autouse=True)
def temporary_files():
    """Make no folder for temporary files: the nursery has one,
    which it removes even if these tests are killed.
    """


@pytest.fixture(scope="session")
def nursery():
    process = _Nursery()
    yield process
    process.stop()


@pytest.fixture
def run_scenario(nursery, request):
    """Return a function that runs a scenario for some seconds
    and returns its result (``engine.run``).
    """

    def run(scenario, seconds, limit=HANG):
        return nursery.run(scenario, seconds, request.config.getoption("--seed"), limit)

    return run


@pytest.fixture
def stress(run_scenario, share_of_minutes, request):
    """Return a function that runs a scenario for its share of the time,
    and fails the test with it.
    """

    def run(scenario):
        result = run_scenario(scenario, share_of_minutes(SECONDS))
        path = request.config.getoption("--stress-report")
        if path:
            _record(Path(path), result)
        request.node.user_properties.append(("stress", result))
        if result["outcome"] != "passed":
            about = {name: value for name, value in result.items() if name != "failures"}
            failures = "\n".join(result["failures"])
            pytest.fail(f"{about}\nagain with --seed {result['seed']}\n{failures}", pytrace=False)

    return run


@pytest.fixture
def share_of_minutes(request):
    """Return the seconds for this test: its share of --minutes, or the given default."""

    def share(default):
        minutes = request.config.getoption("--minutes")
        tests = sum("share_of_minutes" in item.fixturenames for item in request.session.items)
        return default if minutes is None else 60 * minutes / tests

    return share


def _record(path, result):
    """Replace an earlier result by *result*; several runs of pytest may share the file."""
    with open(path, "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        known = json.loads(text)["results"] if text else []
        key = result["scenario"], result["configuration"]
        kept = [other for other in known if (other["scenario"], other["configuration"]) != key]
        kept.append(result)
        file.truncate(0)
        json.dump(
            {
                "version": 1,
                "results": sorted(kept, key=lambda r: (r["scenario"], r["configuration"])),
            },
            file,
            indent=1,
        )


def pytest_collection_modifyitems(config, items):
    # A soak takes what it was given, and then some to end.
    seconds = 60 * (config.getoption("--minutes") or 0)
    for item in items:
        if (
            Path(__file__).parent in item.path.parents
            and item.get_closest_marker("timeout") is None
        ):
            item.add_marker(pytest.mark.timeout(seconds + 3 * HANG + 60))


def pytest_report_header(config):
    return f"stress: {engine.configuration()}, --seed {config.getoption('--seed')}"
