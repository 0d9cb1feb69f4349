"""Starting trials: the command, environment and checks that every endpoint shares."""

from __future__ import annotations

import json
import os
import site
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from bench.environment import PROJECT_ROOT
from bench.supervise import Outcome

# PYTHON_GIL for each configuration; the GIL build does not know the variable.
PYTHON_GIL = {"gil": None, "ft-gil": "1", "ft": "0"}
TWIN = {"gil": "gil", "ft-gil": "ft", "ft": "ft"}

# No trial takes minutes; one that does is stuck.
TIMEOUT_SECONDS = 300.0


def command(python: str | Path, module: str) -> list[str]:
    """Run a module of this package with `python`, whatever the working directory holds."""
    return [str(python), "-P", "-m", module]


def child_environment(config: str | None = None, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of a child process, for a configuration or (None) as it is."""
    environment = {name: value for name, value in base.items() if name != "PYTHON_GIL"}
    if config is not None and PYTHON_GIL[config] is not None:
        environment["PYTHON_GIL"] = PYTHON_GIL[config]
    # The twins import the same source. Where it is installed, each has its own copy, and its
    # site-packages must not be seen by the other, whose extension modules differ.
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()}
    if str(PROJECT_ROOT) not in installed:
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(PROJECT_ROOT), *filter(None, [base.get("PYTHONPATH")])])
    return environment


def encode(request: dict) -> bytes:
    """The first line of a trial's stdin. The parent's id lets the trial die with the process that started it."""
    return json.dumps({**request, "parent": os.getpid()}).encode() + b"\n"


class TrialFailed(Exception):
    """A trial did not measure; the message says how it ended and quotes its last words."""


def last_lines(stderr: bytes, count: int = 12) -> str:
    """The end of what a process wrote to stderr, indented."""
    lines = stderr.decode(errors="replace").rstrip().splitlines()[-count:]
    return "".join(f"\n    {line}" for line in lines)


def how_it_ended(outcome: Outcome) -> str:
    """A process's end in words: "exit status 1", "killed by signal 9 (out of memory?)"."""
    if outcome.returncode >= 0:
        return f"exit status {outcome.returncode}"
    how = f"killed by signal {-outcome.returncode}"
    if outcome.returncode == -7:
        how += " (bus error: /dev/shm is full; enlarge it with --shm-size, SHM_SIZE in compose)"
    if outcome.returncode == -9:
        how += " (out of memory?)"
    return how


def decode(line: bytes) -> dict:
    """A line of a trial's stdout; raises TrialFailed if it is none of its own."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise TrialFailed(f"its stdout has a line that is none of its own: {line[:80]!r}") from error
