"""One run of a command (--command): its time, CPU time, memory and output."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO

from ftbench.plan.scenario import TrialError
from ftbench.trial.process import HANGS, how_it_ended
from ftrun.supervise import Child, Completed, Watch

KEPT = 64 * 1024
"""Bytes of the output that are kept, to show where two outputs differ."""
SHOWN = 200
"""Characters of a command that messages show."""


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

    def run(self, watch: Watch, seconds: float) -> ProgramRun:
        """Run the set-up, then the command; return what the command took.

        Raises TrialError if one of them cannot be started, fails or takes longer than *seconds*,
        and Stopped if a callback of *watch* ended it. No process of theirs is left then.
        """
        _check_python(self.arguments[0], self.environment["PATH"])
        if not self.setup:
            return self._run(self.arguments, self.stdin, watch, seconds)
        before = self._run(self.setup, None, watch, seconds)
        run = self._run(self.arguments, self.stdin, watch, seconds)
        left_behind = before.left_behind + run.left_behind
        return replace(run, left_behind=left_behind, setup_seconds=before.seconds)

    def _run(
        self, arguments: Sequence[str], stdin: str | None, watch: Watch, seconds: float
    ) -> ProgramRun:
        words, output = shlex.join(arguments)[:SHOWN], Output()
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(_opened(stdin))
            began = time.time()
            try:
                child = Child([*arguments], self.environment, keep=KEPT, tree=True, stdin=file)
            except OSError as error:
                raise TrialError(f"`{words}` cannot be run: {error.strerror}") from error
            stack.enter_context(contextlib.closing(child))
            child.stdout.take = output.take
            if not child.listen(watch, seconds):
                raise TrialError(f"`{words}`: {HANGS} {seconds:.0f} s")
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


def with_python_first(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return *environment* with the programs of this Python first on PATH: `python`, `pytest`. A
    virtual environment in it becomes this Python's.
    """
    paths = environment.get("PATH", os.defpath).split(os.pathsep)
    changed = dict(environment)
    if active := environment.get("VIRTUAL_ENV"):
        paths = [path for path in paths if path != os.path.join(active, "bin")]
        changed["VIRTUAL_ENV"] = sys.prefix
    changed["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), *paths])
    return changed


def _check_python(program: str, path: str) -> None:
    """Raise TrialError if *program* is a Python that is not of this configuration."""
    found = shutil.which(program, path=path) or ""
    if os.path.basename(program).startswith("python") and found:
        if os.path.dirname(found) != os.path.dirname(sys.executable):
            raise TrialError(
                f"{program} is {found}, the same in every configuration: write python, which is "
                "the Python of each"
            )


def _opened(path: str | None) -> IO[bytes]:
    """Open the file that a command reads; raises TrialError."""
    try:
        return open(path or os.devnull, "rb")
    except OSError as error:
        raise TrialError(f"--stdin {path} cannot be read: {error.strerror}") from error


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
