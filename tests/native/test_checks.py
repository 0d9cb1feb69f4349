"""The hooks of .pre-commit-config.yaml, run like the first run of ./twins test: each finds its fault."""

import shutil
import subprocess

import pytest

from native import build, checks
from tests.checkout import CHECKOUT

FAULTS = {
    "ruff-format": ("native/fault.py", "x=1\n"),
    "ruff-check": ("native/fault.py", "import os\n"),
    "mypy": ("runtime/ftrun/fault.py", 'x: int = "1"\n'),
    "mypy-native": ("native/fault.py", 'x: int = "1"\n'),
    "shellcheck": ("docker/fault", "#!/bin/sh\nrm -rf $1\n"),
    "hadolint": ("Dockerfile.fault", "FROM debian\nRUN cd /tmp\n"),
    "codespell": ("docs/fault.md", "teh\n"),  # codespell:ignore teh
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A repository with the files that the hooks check."""
    if reason := checks.why_not():
        pytest.skip(reason)
    copy = tmp_path_factory.mktemp("copy")
    for name in (".pre-commit-config.yaml", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, copy)
    for folder in ("native", "runtime/ftrun", "loader/ftloader", "bench/ftbench", "safety/ftsafety"):
        shutil.copytree(CHECKOUT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, _ in FAULTS.values():
        (copy / name).parent.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
    subprocess.run(["git", "add", "."], cwd=copy, check=True)
    return copy


@pytest.mark.parametrize("hook", FAULTS)
def test_a_fault_is_found(copy, hook):
    name, text = FAULTS[hook]
    fault = copy / name
    fault.write_text(text)
    fault.chmod(0o755)
    subprocess.run(["git", "add", name], cwd=copy, check=True)
    try:
        program, run, *options = checks.command(build.twins()["gil"])
        done = subprocess.run(
            [program, run, hook, *options],
            cwd=copy,
            env=checks.variables(),
            capture_output=True,
            text=True,
            timeout=250,
        )
    finally:
        fault.unlink()
        subprocess.run(["git", "add", name], cwd=copy, check=True)
    assert done.returncode == 1 and f"hook id: {hook}" in done.stdout, done.stdout + done.stderr
