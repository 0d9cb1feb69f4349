"""One run of a script, as a plain record: for an interpreter here, or sent to a server."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.script import Script

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
    """One run of a script in a configuration."""

    config: str
    script: Script
    threads: int
    limits: Limits
    force_off: bool = False
    """Set PYTHON_GIL=0 in the configuration ft. Without it, an import that turns the GIL on is seen."""

    def as_json(self) -> dict:
        return {
            "config": self.config,
            "script": self.script.as_json(),
            "threads": self.threads,
            "limits": asdict(self.limits),
            "force_off": self.force_off,
        }

    @classmethod
    def from_json(cls, values: dict) -> Request:
        """Return the request that `as_json` described; raises KeyError, TypeError or ValueError for anything else."""
        if values["config"] not in CONFIGURATIONS:
            raise ValueError(f"unknown configuration {values['config']!r}")
        script, limits = Script.from_json(values["script"]), Limits(**values["limits"])
        return cls(values["config"], script, int(values["threads"]), limits, bool(values["force_off"]))
