"""Fixture that runs programs under torchrun: gloo, two ranks on this machine."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import importable


@pytest.fixture(scope="session")
def torchrun():
    """Return ``torchrun(program, *arguments)``, which runs a file of this folder in two ranks.

    If one rank fails, the test fails with all that was printed."""

    def run(program, *arguments, python=sys.executable):
        process = subprocess.Popen(
            [
                str(python),
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node",
                "2",
                str(Path(__file__).with_name(program)),
                *map(str, arguments),
            ],
            env={**os.environ, "PYTHONPATH": importable(), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=400)
        finally:
            if process.poll() is None:  # the ranks too
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        assert process.returncode == 0, output
        return output

    return run
