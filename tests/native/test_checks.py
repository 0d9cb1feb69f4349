"""The hooks of .pre-commit-config.yaml, run like the first run of ./twins test:
each finds its fault.
"""

import re
import shutil
import subprocess

import pytest

from native import build, checks
from tests.checkout import CHECKOUT
from tests.programs import completed

JOB = """\
name: a
on: push
permissions: {{}}
jobs:
  a:
    name: a
    runs-on: ubuntu-24.04
    steps:
      - {step}
"""
UNPINNED = JOB.format(step="uses: owner/action@v1")
STEPS = JOB.format(step="run: rm -rf $1")
FAULTS = {
    "ruff-format": ("native/form.py", "x=1\n"),
    "ruff-check": ("native/unused.py", "import os\n"),
    "mypy": ("runtime/ftrun/fault.py", 'x: int = "1"\n'),
    "mypy-native": ("native/fault.py", 'x: int = "1"\n'),
    "shellcheck": ("docker/fault", "#!/bin/sh\nrm -rf $1\n"),
    "hadolint": ("Dockerfile.fault", "FROM debian\nRUN cd /tmp\n"),
    "workflows": (".github/workflows/form.yml", "on: push\njobs: {}\n"),
    "action": ("action.yml", "name: a\nruns: {using: composite, steps: []}\n"),
    "zizmor": (".github/workflows/unpinned.yml", UNPINNED),
    "workflow-steps": (".github/workflows/steps.yml", STEPS),
    "codespell": ("docs/fault.md", "teh\n"),  # codespell:ignore teh
}


@pytest.mark.slow
def test_every_hook_finds_its_fault(tmp_path):
    if reason := checks.why_not():
        pytest.skip(reason)
    (tmp_path / ".ci").mkdir()
    for name in (".pre-commit-config.yaml", "pyproject.toml", ".ci/check-steps"):
        shutil.copy(CHECKOUT / name, tmp_path / name)
    for folder in (
        "native",
        "runtime/ftrun",
        "loader/ftloader",
        "bench/ftbench",
        "safety/ftsafety",
    ):
        (tmp_path / folder).mkdir(parents=True)
        # else mypy has nothing to look at
        shutil.copy(CHECKOUT / folder / "__init__.py", tmp_path / folder)
    for name, text in FAULTS.values():
        fault = tmp_path / name
        fault.parent.mkdir(parents=True, exist_ok=True)
        fault.write_text(text)
        fault.chmod(0o755)
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    done = completed(
        checks.command(build.twins()["gil"]), status=1, cwd=tmp_path, env=checks.variables()
    )
    for hook, (name, _) in FAULTS.items():
        said = re.search(rf"hook id: {hook}\n(.*?)(?=\n\S[^\n]*\.\.\.|\Z)", done.stdout, re.S)
        # ruff format and codespell name the line, or only that they changed a file.
        assert said and (name in said[0] or hook == "ruff-format"), done.stdout + done.stderr
