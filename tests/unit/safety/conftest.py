"""Scripts run by this interpreter, each under a supervisor in a process of its own,
as ``./twins repro`` is.
"""

import json
import os
import sys

import pytest

import ftsafety.audit
from ftrun.configurations import this_twin
from ftsafety.repro import commands, outcome
from ftsafety.repro.request import Limits, Request
from ftsafety.repro.script import Script
from tests.checkout import CHECKOUT, importable
from tests.programs import completed

TWIN = this_twin()


def audit(dataset, **options):
    """Audit a dataset with the patience that a busy machine needs."""
    return ftsafety.audit.audit(dataset, **{"patience": 600.0, **options})


def kinds(report):
    return {finding.kind for finding in report.findings}


def the(report, kind):
    """Return the first finding of a kind."""
    found = [finding for finding in report.findings if finding.kind == kind]
    assert found, str(report)
    return found[0]


def shown_as_harmless(dataset):
    """Return the targets of the dataset's writes that are harmless,
    provided that threads get no wrong samples.
    """
    from ftsafety.audit.same_values import harmless  # which imports torch
    from ftsafety.audit.samples import choose
    from ftsafety.audit.serial import Serial

    serial = Serial(choose(dataset, None, 24, 2, 0), patience=600.0)
    codes = serial.alone(serial.passes)
    first, second, _ = serial.alone(lambda: serial.observe_twice(codes))
    return {write.target for write in harmless(serial, codes, first, second)}


SUPERVISOR = """
import json, sys
from ftsafety.repro.request import Request
from ftsafety.repro.run import run
values = json.load(sys.stdin)
done = run(sys.executable, Request.from_json(values), {}, overlay=values["overlay"])
sys.stdout.write(json.dumps(done.as_json()))  # at once: json.dump writes hundreds of pieces
"""


@pytest.fixture
def run_script(tmp_path):
    """Runs a script or its source once: `run_script(source, timeout=30)` gives its Outcome. Scratch
    is in tmp_path.
    """

    def run(script, config=TWIN, threads=2, force_off=False, overlay=None, **limits):
        limits = Limits(**{"timeout": 1500.0, **limits})
        script = script if isinstance(script, Script) else Script("bug.py", script.encode())
        request = Request(config, script, threads, limits, force_off)
        variables = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
        variables |= {"TMPDIR": str(tmp_path), "PYTHONPATH": importable(), "A_SECRET": "hunter2"}
        done = completed(
            [sys.executable, "-P", "-c", SUPERVISOR],
            input=json.dumps({**request.as_json(), "overlay": overlay}),
            env=variables,
            status=0,
        )
        return outcome.from_json(json.loads(done.stdout))

    return run


@pytest.fixture
def default_series(monkeypatch):
    """Makes a report's commands those of the twins of the default series,
    whichever series runs the tests.
    """
    monkeypatch.setattr(
        commands, "HERE", (CHECKOUT / "docker" / "python-series").read_text().strip()
    )
