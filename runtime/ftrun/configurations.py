"""The three configurations ("gil", "ft-gil", "ft"), their names in reports, and commands that run a
module in one.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ftrun.project import SOURCE_PATHS


@dataclass(frozen=True)
class Configuration:
    """One of the three ways to run Python: a twin with its GIL on or off. Most fields are names for
    use in reports.
    """

    name: str
    twin: str
    """The twin whose Python runs this configuration: "ft" or "gil"."""
    python_gil: str | None
    """The value of the variable PYTHON_GIL. None for the GIL build, for which it stays unset."""
    title: str
    """The name in tables and headings."""
    short: str
    """The name in charts, which have little room."""
    build: str
    """The name in sentences, as a noun: "fails on ..."."""
    phrase: str
    """The name in sentences, after a noun: "threads ..."."""


CONFIGURATIONS = {
    configuration.name: configuration
    for configuration in (
        Configuration(
            "gil", "gil", None, "GIL build", "GIL build", "the build with the GIL", "with the GIL"
        ),
        Configuration(
            "ft-gil",
            "ft",
            "1",
            "free-threaded build with GIL on",
            "free-threaded, GIL on",
            "the free-threaded build with the GIL on",
            "in the free-threaded build, GIL on",
        ),
        Configuration(
            "ft",
            "ft",
            "0",
            "free-threaded build",
            "free-threaded",
            "the free-threaded build without the GIL",
            "without the GIL",
        ),
    )
}
"""All configurations by name, in the order in which tables list them."""

TWIN = {name: configuration.twin for name, configuration in CONFIGURATIONS.items()}


def this_twin() -> str:
    """Return the name of the twin that runs this process:
    "ft" if it is a free-threaded build, else "gil".
    """
    return "ft" if sysconfig.get_config_var("Py_GIL_DISABLED") else "gil"


def gil_enabled() -> bool:
    """True if the GIL of this process is on."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def command(python: str | Path, module: str) -> list[str]:
    """Return the command that runs a module with `python`,
    without the working directory on `sys.path`.
    """
    return [str(python), "-P", "-m", module]


def child_environment(
    config: str | None = None, base: Mapping[str, str] = os.environ, paths: Iterable[str] = ()
) -> dict[str, str]:
    """Return environment variables for a child process: `base`,
    with the project and `paths` in PYTHONPATH.

    PYTHON_GIL is set as the configuration `config` needs it.
    If `config` is None, PYTHON_GIL is left out.
    """
    environment = dict(base)
    environment.pop("PYTHON_GIL", None)
    if config is not None and (forced := CONFIGURATIONS[config].python_gil) is not None:
        environment["PYTHON_GIL"] = forced
    # In a checkout both twins import the same source. Installed, each twin has a copy in its own
    # site-packages, and must not see the other's: the extension modules there do not fit it.
    folders = [*SOURCE_PATHS, *paths]
    if folders:
        environment["PYTHONPATH"] = _search_path(folders, base.get("PYTHONPATH", ""))
    return environment


def _search_path(folders: list[str], before: str) -> str:
    """Return a value of PYTHONPATH: the folders,
    then the others of the value that it had before.
    """
    rest = [path for path in before.split(os.pathsep) if path and path not in folders]
    return os.pathsep.join(folders + rest)


def last_lines(stderr: bytes, count: int = 12) -> str:
    """Return the last `count` lines of `stderr` for an error message,
    indented, each after a line break.
    """
    text = stderr.decode(errors="replace").rstrip()
    lines = text.splitlines()[-count:]
    return "".join(f"\n    {line}" for line in lines)
