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
    """The command that runs a module with `python`; nothing is imported from the working directory."""
    return [str(python), "-P", "-m", module]


def child_environment(
    config: str | None = None, base: Mapping[str, str] = os.environ, paths: Iterable[str] = ()
) -> dict[str, str]:
    """The environment variables of a child process in a configuration; with None, PYTHON_GIL is not set.

    Args:
        paths: more folders for the child to import from.
    """
    environment = {name: value for name, value in base.items() if name != "PYTHON_GIL"}
    forced = None if config is None else PYTHON_GIL[config]
    if forced is not None:
        environment["PYTHON_GIL"] = forced
    # In a checkout both twins import the same source. Where it is installed, each twin has its own copy in its
    # site-packages, which the other must not import from: the extension modules there would not fit it.
    before = [path for path in base.get("PYTHONPATH", "").split(os.pathsep) if path]
    wanted = [*SOURCE_PATHS, *paths]
    if wanted:
        environment["PYTHONPATH"] = os.pathsep.join([*wanted, *(path for path in before if path not in wanted)])
    return environment


def last_lines(stderr: bytes, count: int = 12) -> str:
    """The end of what a process wrote to stderr, indented."""
    lines = stderr.decode(errors="replace").rstrip().splitlines()[-count:]
    return "".join(f"\n    {line}" for line in lines)
