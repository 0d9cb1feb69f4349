"""The command and a server, as in two containers: the script is sent, run there, and judged here."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.checkout import importable
from tests.unit.safety.conftest import TWIN

pytestmark = pytest.mark.thread_unsafe(reason="starts processes")


@pytest.fixture
def environment(tmp_path):
    variables = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    return {**variables, "PYTHONPATH": importable(), "TMPDIR": str(tmp_path)}


@pytest.fixture
def server(environment, tmp_path):
    """A `ftsafety.repro.script_server` of this interpreter, at tmp_path/s."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "ftsafety.repro.script_server", "--socket", str(tmp_path / "s"), "--idle", "200"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def reproduce(environment, tmp_path):
    """Runs the command against the server, with `source` on standard input."""

    def run(source, *arguments):
        return subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                "ftsafety.repro",
                "-",
                "--twin",
                f"{TWIN}=unix:{tmp_path / 's'}",
                "--repeat",
                "2",
                *arguments,
            ],
            env=environment,
            input=source,
            capture_output=True,
            text=True,
            timeout=250,
        )

    return run


def test_a_script_is_sent_and_judged(server, reproduce):
    done = reproduce(
        "import os, sys\nprint('threads', os.environ['REPRO_THREADS'])\nsys.exit(3)\n",
        "--threads",
        "3",
        "--configs",
        TWIN,
    )
    assert done.returncode == 13, done.stdout + done.stderr
    assert "exit status 3" in done.stdout and "threads 3" in done.stdout
    assert "docker compose run --rm -T ft-repro - --threads 3" in done.stdout
    assert "walls: containers" in done.stdout and "no walls" not in done.stderr
    assert server.wait(timeout=60) == 0


def test_a_configuration_without_a_twin_is_told(server, reproduce):
    done = reproduce("print(1)\n")
    assert done.returncode == 0, done.stdout + done.stderr
    other = "gil" if TWIN == "ft" else "ft"
    assert f"{other} was not run: no interpreter was given for it" in done.stdout.replace("\\", "")


def test_a_script_that_kills_its_supervisor(server, reproduce):
    done = reproduce("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n", "--configs", TWIN)
    assert done.returncode == 14, done.stdout + done.stderr
    assert "may have killed what supervises it" in done.stdout and "Traceback" not in done.stderr


def test_packages_cannot_be_installed_behind_walls(server, reproduce):
    done = reproduce("# /// script\n# dependencies = ['no-such-package', 'numpy']\n# ///\n", "--configs", TWIN)
    assert done.returncode == 14, done.stdout + done.stderr
    assert "the script wants no-such-package, and a container without network" in done.stdout.replace("\\", "")


def test_other_requests_are_refused():
    from ftsafety.repro.script_server import answer

    assert "unknown request" in answer({"op": "trial"}, {})["error"]
    assert "not a request" in answer({}, {})["error"]
    assert "unknown configuration" in answer({"op": "reproduce", "config": "x"}, {})["error"]
    wrong = {"op": "reproduce", "config": TWIN, "name": "x", "source": "", "threads": 1, "limits": {"cpu": 1}}
    assert "not a request" in answer(wrong, {})["error"]
