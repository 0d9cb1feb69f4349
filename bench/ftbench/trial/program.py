"""One run of a command (--command): its time, CPU time, memory and output."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ftbench.plan.scenario import TrialError
from ftbench.trial.process import how_it_ended
from ftrun.supervise import Child, Completed, Watch

KEPT = 64 * 1024
"""Bytes of the output that are kept, to show where two outputs differ."""
FOREVER = 1e6
"""Limit of a run in seconds. The controller has a shorter one, and ends the trial."""


class Output:
    """What a run printed on stdout: a checksum of all, and the first KEPT bytes."""

    def __init__(self) -> None:
        self.checksum = 0
        """CRC-32."""
        self.head = bytearray()

    def take(self, data: bytes) -> None:
        """Add *data* to what was printed."""
        self.checksum = zlib.crc32(data, self.checksum)
        self.head += data[: KEPT - len(self.head)]


@dataclass(frozen=True)
class ProgramRun:
    """What one run took and printed."""

    began: float
    """Seconds since 1970."""
    seconds: float
    cpu_seconds: float
    """User and system time, of the command and the processes that it waited for."""
    peak_mib: float
    """Peak memory (RSS) of the largest of these processes, in MiB; at least that of this process,
    which its child has until it begins the other program (getrusage(2), ru_maxrss).
    """
    output: Output
    left_behind: int
    """Number of processes of set-up and command that still ran at the end of each, and were killed
    then.
    """
    setup_seconds: float = 0.0


@dataclass(frozen=True)
class Program:
    """The user's command: the words of a command line, which no shell reads."""

    arguments: Sequence[str]
    setup: Sequence[str] = ()
    """Command that runs before each run, and is not measured; empty for none."""
    stdin: str | None = None
    """Path of the file that each run reads; None for an empty input."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, watch: Watch) -> ProgramRun:
        """Run the set-up, then the command; return what the command took.

        Raises TrialError if one of them cannot be started or fails, and Stopped if a callback of
        *watch* ended it. No process of theirs is left then.
        """
        if not self.setup:
            return _run(self.arguments, self.stdin, self.environment, watch)
        before = _run(self.setup, None, self.environment, watch)
        run = _run(self.arguments, self.stdin, self.environment, watch)
        left_behind = before.left_behind + run.left_behind
        return replace(run, left_behind=left_behind, setup_seconds=before.seconds)


def with_python_first(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return *environment* with the programs of this Python first on PATH: `python`, `pytest`."""
    path = os.path.dirname(sys.executable), environment.get("PATH", os.defpath)
    return {**environment, "PATH": os.pathsep.join(path)}


def _run(
    arguments: Sequence[str], stdin: str | None, environment: Mapping[str, str], watch: Watch
) -> ProgramRun:
    words = shlex.join(arguments)
    output = Output()
    began = time.time()
    try:
        with open(stdin or os.devnull, "rb") as file:
            child = Child([*arguments], environment, keep=KEPT, tree=True, stdin=file)
    except OSError as error:
        raise TrialError(f"`{words}` cannot be run: {error.strerror}") from error
    with contextlib.closing(child):
        child.stdout.take = output.take
        child.listen(watch, FOREVER)
        if child.returncode:
            raise TrialError(_failure(words, child, bytes(output.head), stdin))
        assert child.usage, "set at its end"
        return ProgramRun(
            began=began,
            seconds=child.seconds,
            cpu_seconds=child.usage.ru_utime + child.usage.ru_stime,
            peak_mib=child.usage.ru_maxrss / 1024,
            output=output,
            left_behind=child.left_behind,
        )


def _failure(words: str, child: Child, printed: bytes, stdin: str | None) -> str:
    """Print the last lines of a failed run to stderr, where the controller finds them; return how
    the run failed.
    """
    errors = child.stderr.text()
    print((errors or printed).decode(errors="replace"), file=sys.stderr)
    ended = how_it_ended(Completed(child.returncode, b"", b"", child.seconds))
    remedy = ""
    if stdin is None and b"EOFError" in errors:
        remedy = "; its input is empty: --stdin FILE gives it one"
    return f"`{words}`: {ended}{remedy}"
