"""Real images and real runs of the command, made once for all tests that look at them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from bench import synthesis

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def twin() -> str:
    """Which twin runs the tests."""
    return "ft" if sysconfig.get_config_var("Py_GIL_DISABLED") else "gil"


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """The tests' environment with the checkout importable, whatever they do to PYTHON_GIL."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(
        [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])])}


@pytest.fixture(scope="session")
def command():
    """Builds `python -m bench ...` (or another module of it)."""
    def build(*arguments: object, module: str = "bench") -> list[str]:
        return [sys.executable, "-m", module, *map(str, arguments)]

    return build


@pytest.fixture(scope="session")
def run_bench(command, environment):
    """Runs `python -m bench ...` to its end, as a user would."""
    def run(*arguments: object, module: str = "bench", **options) -> subprocess.CompletedProcess:
        options = {"env": environment, "text": True, "capture_output": True, "timeout": 120, **options}
        return subprocess.run(command(*arguments, module=module), **options)

    return run


@pytest.fixture(scope="session")
def tiny(photos: Path, twin: str):
    """Builds the arguments of the smallest real run: one configuration, one worker, batches of two."""
    def build(out: Path, *more: object) -> list[object]:
        return ["pillow", "--quick", "--data", photos, "--out", out, "--configs", twin,
                "--workers", 1, "--batch-size", 2, *more]

    return build


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with six JPEGs of the scenario's size."""
    directory = tmp_path_factory.mktemp("photos")
    for number in range(6):
        synthesis.photograph(number).save(directory / f"{number}.jpg", "JPEG", **synthesis.JPEG_SETTINGS)
    return directory


@pytest.fixture(scope="session")
def finished_run(run_bench, tiny, tmp_path_factory: pytest.TempPathFactory):
    """(CompletedProcess, the run's directory) of a complete run of two rounds."""
    out = tmp_path_factory.mktemp("results")
    done = run_bench(*tiny(out, "--rounds", 2))
    assert done.returncode == 0, done.stderr
    return done, (out / "latest").resolve()


@pytest.fixture
def document(finished_run) -> dict:
    """The results.json of the complete run."""
    return json.loads((finished_run[1] / "results.json").read_text())
