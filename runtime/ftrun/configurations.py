"""The three configurations, and how a module is run in one of them."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from ftrun.project import SOURCE_PATHS

# PYTHON_GIL for each configuration; the GIL build does not know the variable.
PYTHON_GIL = {"gil": None, "ft-gil": "1", "ft": "0"}
TWIN = {"gil": "gil", "ft-gil": "ft", "ft": "ft"}


def this_twin() -> str:
    """The twin that this interpreter is: "ft" if it is a free-threaded build, else "gil"."""
    return "ft" if sysconfig.get_config_var("Py_GIL_DISABLED") else "gil"


def command(python: str | Path, module: str) -> list[str]:
    """Run a module with `python`, whatever the working directory holds."""
    return [str(python), "-P", "-m", module]


def child_environment(
    config: str | None = None, base: Mapping[str, str] = os.environ, paths: Iterable[str] = ()
) -> dict[str, str]:
    """The environment of a child process, for a configuration or (None) as it is.

    Args:
        paths: more folders for the child to import from.
    """
    environment = {name: value for name, value in base.items() if name != "PYTHON_GIL"}
    forced = None if config is None else PYTHON_GIL[config]
    if forced is not None:
        environment["PYTHON_GIL"] = forced
    # The twins import the same source from a checkout. Where it is installed, each has its own copy, and its
    # site-packages must not be seen by the other, whose extension modules differ.
    before = [path for path in base.get("PYTHONPATH", "").split(os.pathsep) if path]
    wanted = [*SOURCE_PATHS, *paths]
    if wanted:
        environment["PYTHONPATH"] = os.pathsep.join([*wanted, *(path for path in before if path not in wanted)])
    return environment


def last_lines(stderr: bytes, count: int = 12) -> str:
    """The end of what a process wrote to stderr, indented."""
    lines = stderr.decode(errors="replace").rstrip().splitlines()[-count:]
    return "".join(f"\n    {line}" for line in lines)
