"""The request for one run of a script: carried out by an interpreter here,
or sent to a server as JSON.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.script import Script

MIB = 1024 * 1024


@dataclass(frozen=True)
class Limits:
    """Limits of one run, for all of its processes together.

    ftsafety.repro.watch measures the whole process tree. Of the kernel's limits for single
    processes, only RLIMIT_FSIZE is used:

    - RLIMIT_DATA and RLIMIT_AS count addresses. A free-threaded build reserves far more of them
      than it uses: 64 MiB or more for each thread. So a script would fail in that build only.
    - RLIMIT_NPROC counts all processes of the user, and does not bind root.
    """

    timeout: float = 60.0
    """Seconds."""
    memory: int = 4096 * MIB
    """Bytes in memory, of all processes together."""
    processes: int = 128
    disk: int = 1024 * MIB
    """Bytes in the scratch folder. A single file may have half of this."""
    output: int = 64 * MIB
    """Bytes on stdout and stderr together."""


@dataclass(frozen=True)
class Request:
    """Request for one run of a script in a configuration."""

    config: str
    script: Script
    threads: int
    limits: Limits
    force_off: bool = False
    """True to set PYTHON_GIL=0 in the configuration ft. If False, an import can turn the GIL on,
    which is reported.
    """

    def as_json(self) -> dict:
        return {**vars(self), "script": self.script.as_json(), "limits": asdict(self.limits)}

    @classmethod
    def from_json(cls, values: dict) -> Request:
        """Return the request from the result of `as_json`; raises KeyError,
        TypeError or ValueError if invalid.
        """
        if values["config"] not in CONFIGURATIONS:
            raise ValueError(f"unknown configuration {values['config']!r}")
        script = Script.from_json(values["script"])
        limits = Limits(**values["limits"])
        return cls(
            values["config"], script, int(values["threads"]), limits, bool(values["force_off"])
        )
