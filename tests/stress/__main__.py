"""The scenarios as a program for another one to read: python -m tests.stress [--minutes M] [--seed
N] [-k EXPRESSION].

Runs test_scenarios.py in pytest, whose arguments it takes. Its stdout has a line of JSON for each
thing that is known: first {"source": SHA-256 of the suite, "scenarios": [names]}, then what each
scenario did (engine.run) as soon as it has ended. What pytest says is on stderr; the exit status is
pytest's.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import pytest

from tests.stress import engine

HERE = Path(__file__).resolve().parent


def source() -> str:
    """Return the SHA-256 over names and contents of the suite's files."""
    digest = hashlib.sha256()
    for path in sorted(HERE.rglob("*.py")):
        digest.update(
            f"{path.relative_to(HERE)}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode()
        )
    return digest.hexdigest()


class _Lines:
    """A plugin of pytest that writes the lines."""

    def __init__(self, file):
        self._file = file
        self._scenarios = {}
        self._seed = 0

    def _write(self, line):
        print(json.dumps(line), file=self._file, flush=True)

    def pytest_collection_finish(self, session):
        self._seed = session.config.getoption("--seed")
        self._scenarios = {item.nodeid: item.callspec.params["scenario"] for item in session.items}
        self._write(
            {
                "source": source(),
                "scenarios": [engine.name_of(each) for each in self._scenarios.values()],
            }
        )

    def pytest_runtest_logreport(self, report):
        results = [value for name, value in report.user_properties if name == "stress"]
        if report.when == "call" and results:
            self._write(results[-1])
        elif report.failed:  # the process that runs the scenarios was lost
            scenario = self._scenarios[report.nodeid]
            self._write(
                {
                    **engine.about(scenario, self._seed),
                    "iterations": None,
                    "seconds": round(report.duration, 3),
                    "failures": [report.longreprtext],
                    "outcome": "crashed",
                }
            )


def main() -> int:
    """Run pytest; return its exit status."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ.pop("PYTEST_ADDOPTS", None)  # of somebody who tests something else
    return pytest.main(
        [str(HERE / "test_scenarios.py"), "-q", "-p", "no:cacheprovider", *sys.argv[1:]],
        plugins=[_Lines(lines)],
    )


if __name__ == "__main__":
    sys.exit(main())
