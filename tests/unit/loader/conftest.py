"""Fixtures for the loader's tests."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ftloader.workers import exit as program_exit
from tests.checkout import importable

# A machine that stands still for some seconds is no failure. Programs that the tests start have the default.
program_exit.JOIN_LIMIT = 60.0


@pytest.fixture(params=["thread", "process"])
def worker_method(request) -> str:
    return request.param


@pytest.fixture(autouse=True)
def _no_worker_thread_left(no_worker_thread_left):
    """Use the fixture of tests/conftest.py for every test here."""


@pytest.fixture(autouse=True, scope="module")
def _small_arrays_have_slots(small_arrays_have_slots):
    """Use the fixture of tests/conftest.py for every test here."""


@pytest.fixture
def start_python(tmp_path):
    """Return ``start_python(source) -> subprocess.Popen``, which starts a program in a fresh interpreter.

    It has this interpreter's GIL mode, and is killed after the test if it still runs."""
    started = []

    def start(source: str) -> subprocess.Popen:
        script = tmp_path / "program.py"
        script.write_text(textwrap.dedent(source))
        process = subprocess.Popen(
            [sys.executable, str(script)],
            env=os.environ | {"PYTHONPATH": importable()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


# Importing torch takes seconds, so programs whose start is not what is tested run in
# processes forked from one that has imported it. They end as any program does: by
# reaching the end of the main module, with their globals in place.
_IMPORTED = """
import json, os, sys
import torch
import ftloader
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if child == 0:
        for fd, path in enumerate((os.devnull, request["out"], request["err"])):
            os.dup2(os.open(path, os.O_RDWR), fd)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
exec(compile(request["source"], "program.py", "exec"), globals())
"""


class ImportedPython:
    """A process that has imported torch, and forks a child for each program.

    It starts when it is needed. It is killed together with a program that hangs, and starts again."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None

    def run(self, source: str, out: Path, err: Path) -> int:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _IMPORTED],
                env=os.environ | {"PYTHONPATH": importable()},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        request = {"source": textwrap.dedent(source), "out": str(out), "err": str(err)}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())
        except BaseException:  # the test's time is over
            self.kill()
            raise

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@pytest.fixture(scope="session")
def imported_python():
    python = ImportedPython()
    yield python
    python.kill()


@pytest.fixture
def run_program(imported_python, tmp_path):
    """Return ``run_program(source) -> (exit status, stdout, stderr)``, which runs a program to its end."""

    def run(source: str) -> tuple[int, str, str]:
        out, err = tmp_path / "out", tmp_path / "err"
        out.touch()
        err.touch()
        status = imported_python.run(source, out, err)
        return status, out.read_text(), err.read_text()

    return run
