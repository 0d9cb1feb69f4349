"""Fixtures that run programs of the packages as a user would."""

import os
import subprocess
import sys

import pytest

from ftrun.configurations import this_twin
from tests.checkout import CHECKOUT, importable
from tests.programs import completed


@pytest.fixture(scope="session")
def twin() -> str:
    """Return the twin that runs the tests."""
    return this_twin()


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Return the tests' environment with the checkout importable."""
    return {**os.environ, "PYTHONPATH": importable(CHECKOUT)}


@pytest.fixture(scope="session")
def command(pytestconfig):
    """Return a function that builds `python -m ftbench ...` (or of another module).

    Refuse under --quick: a program that imports torch takes seconds to start.
    """
    assert not pytestconfig.getoption("--quick"), "mark a test that starts a program slow"

    def build(*arguments: object, module: str = "ftbench") -> list[str]:
        return [sys.executable, "-m", module, *map(str, arguments)]

    return build


@pytest.fixture(scope="session")
def run_bench(command, environment):
    """Return a function that runs `python -m ftbench ...` to its end."""

    def run(*arguments: object, module: str = "ftbench", **options) -> subprocess.CompletedProcess:
        return completed(command(*arguments, module=module), **{"env": environment, **options})

    return run


@pytest.fixture
def disk(tmp_path):
    """Return ``disk(size)``, which makes a directory on a file system of *size* bytes."""
    mounted = []

    def mount(size):
        path = tmp_path / f"disk{len(mounted)}"
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
        done = completed(command)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
