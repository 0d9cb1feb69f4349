"""The script under test, and everything that either kind of twin needs to run it once: here, or sent to a server."""

from __future__ import annotations

import base64
import os
import shlex
from dataclasses import asdict, dataclass
from pathlib import PurePath

from ftrun.configurations import CONFIGURATIONS
from ftrun.inline_metadata import dependencies

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Limits of one run, over all of its processes unless said otherwise.

    ftsafety.repro.watch measures the whole tree. The kernel enforces RLIMIT_FSIZE alone for each process. RLIMIT_DATA
    and RLIMIT_AS count addresses, of which a free-threaded build reserves far more than it uses, 64 MiB or more for
    each thread: a script would fail in that build alone. RLIMIT_NPROC counts everything that the user runs anywhere,
    and does not bind root.
    """

    timeout: float = 60.0
    """Seconds."""
    memory: int = 4096 * MIB
    """Bytes in memory, of all processes together."""
    processes: int = 128
    disk: int = 1024 * MIB
    """Bytes in the scratch folder; any one file may have half of them."""
    output: int = 64 * MIB
    """Bytes on stdout and stderr together."""


@dataclass(frozen=True)
class Request:
    """One run of a script."""

    config: str
    name: str
    """The script's file name."""
    source: bytes
    threads: int
    limits: Limits
    force_off: bool = False
    """Set PYTHON_GIL=0 in the configuration ft. Without it, an import that turns the GIL on is seen."""
    overlay: str | None = None
    """A folder of packages that come before the twin's own."""
    wrapper: tuple[str, ...] = ()
    """A command that runs the interpreter, such as a debugger."""

    def as_json(self) -> dict:
        """Return the request for a server, where there are no overlays and no wrappers."""
        values = {**asdict(self), "source": base64.b64encode(self.source).decode()}
        del values["overlay"], values["wrapper"]
        return values

    @classmethod
    def from_json(cls, values: dict) -> Request:
        """Return the request that `as_json` described; raises KeyError, TypeError or ValueError for anything else."""
        if values["config"] not in CONFIGURATIONS:
            raise ValueError(f"unknown configuration {values['config']!r}")
        name, source = PurePath(values["name"]).name, base64.b64decode(values["source"])
        threads, limits, force_off = int(values["threads"]), Limits(**values["limits"]), bool(values["force_off"])
        return cls(values["config"], name, source, threads, limits, force_off)


@dataclass(frozen=True)
class Script:
    """One file of Python source."""

    name: str
    source: bytes
    dependencies: tuple[str, ...] = ()
    path: str = ""
    """The path by which the script was named; empty for standard input."""

    @property
    def text(self) -> str:
        return self.source.decode(errors="backslashreplace")

    @property
    def argument(self) -> str:
        """The script as a word of a shell's command: the path by which it was named, else its name; never an option."""
        path = self.path or self.name
        home = os.path.join(os.path.expanduser("~"), "")
        if path.startswith(home) and len(home) > 2:  # a report is for others, whom the home does not concern
            return f"~/{shlex.quote(path.removeprefix(home))}"
        return shlex.quote(f"./{path}" if path.startswith("-") else path)


def load(path: str, source: bytes) -> Script:
    """Return the script that was read from `path` ("-" is standard input); raises MetadataError."""
    wanted = dependencies(source.decode(errors="backslashreplace"))
    return Script("script.py", source, wanted) if path == "-" else Script(PurePath(path).name, source, wanted, path)
