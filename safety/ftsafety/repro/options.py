"""The options of repro, as one record.

`./twins repro` imports this module, so it runs on Python 3.9 and needs no installed package.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.request import MIB, Limits
from ftsafety.repro.script import Script

# Options that a report always names: they decide the outcome, and their defaults may change.
ALWAYS_NAMED = ("threads", "repeat", "timeout")
# Options of a command that repeats the runs, by field.
# Left out are --out, and options that --help hides.
REPEATED = {
    "module": "-m",
    "arguments": "--arg",
    "beside": "--with",
    "stdin": "--stdin",
    "packages": "--package",
    "threads": "--threads",
    "repeat": "--repeat",
    "timeout": "--timeout",
    "budget": "--budget",
    "every_run": "--every-run",
    "interpreters": "--interpreter",
    "configs": "--configs",
    "shrink_threads": "--shrink-threads",
    "memory": "--memory",
    "processes": "--processes",
    "disk": "--disk",
    "output": "--output",
    "dask": "--dask",
    "walls": "--walls",
    "dask_folder": "--dask-folder",
}


@dataclass(frozen=True)
class ReproOptions:
    """Options of one command line, as ftsafety.repro.arguments describes them. Times are in
    seconds, sizes in MiB.
    """

    script: Script
    """The script that the options name, with its files, arguments and standard input."""
    path: str | None = None
    """The argument SCRIPT: a file, a folder for `module`, or - for standard input."""
    module: str | None = None
    arguments: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    stdin: str | None = None
    packages: tuple[str, ...] = ()
    threads: int = 8
    repeat: int = 20
    timeout: float = 60.0
    budget: float = 900.0
    every_run: bool = False
    interpreters: tuple[str, ...] = ()
    out: Path | None = None
    configs: tuple[str, ...] = tuple(CONFIGURATIONS)
    shrink_threads: bool = False
    memory: int = 4096
    processes: int = 128
    disk: int = 1024
    output: int = 64
    dask: str | None = None
    walls: bool = False
    dask_folder: str | None = None
    dask_python: str | None = None
    twins: tuple[tuple[str, str], ...] = ()
    """(name, endpoint) of each twin."""
    cache: Path | None = None

    @property
    def walled(self) -> bool:
        """True if the twins are in containers, in which case this program is in one too."""
        return any(place.startswith("unix:") for _, place in self.twins)

    @property
    def limits(self) -> Limits:
        """The limits of one run."""
        mebibytes = self.memory, self.disk, self.output
        memory, disk, output = (number * MIB for number in mebibytes)
        return Limits(self.timeout, memory, self.processes, disk, output)

    def command_line(self) -> list[str]:
        """Return command-line arguments, without SCRIPT, that give the same runs.

        Options with their default are left out, except those in ALWAYS_NAMED.
        """
        words: list[str] = []
        for name, option in REPEATED.items():
            value = getattr(self, name)
            if value != getattr(ReproOptions, name) or name in ALWAYS_NAMED:
                words += _words(option, value)
        return words


def _words(option: str, value: Any) -> list[str]:
    """Return command-line arguments that give *option* this value."""
    if option == REPEATED["configs"]:
        return [option, ",".join(value)]
    if isinstance(value, tuple):
        # In one word, since a value may look like an option.
        return [f"{option}={part}" for part in value]
    if isinstance(value, bool):
        return [option]
    if isinstance(value, float):
        return [option, f"{value:g}"]
    return [option, str(value)]
