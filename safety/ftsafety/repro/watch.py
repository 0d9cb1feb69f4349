"""Supervision of one process tree: the tree is killed if it exceeds a limit or the run is stopped.

The script may be hostile. So most of its output is dropped,
and all of its descendants are found and killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ftrun import cgroup, process_tree
from ftrun.loop import LOOK_SECONDS, Watch
from ftrun.supervise import DRAIN_SECONDS, Child, Stream
from ftsafety.errors import LimitBroken
from ftsafety.repro.request import MIB, Limits
from ftsafety.repro.runner import DUMP_SIGNAL

KEPT = 64 * 1024  # bytes of each stream, at its start and again at its end
GRACE_SECONDS = 2.0  # between SIGTERM and SIGKILL
MOST_FILES = 100_000
# Seconds before the time limit in which a computing process tree uses,
# or waits for, this share of a processor.
LAST_SECONDS, LEAST_SHARE = 2.0, 0.2


@dataclass
class Ended:
    """Exit status, output and measurements of an ended process tree."""

    returncode: int
    seconds: float
    stdout: Stream
    stderr: Stream
    stacks: Stream
    status: Stream
    timed_out: bool = False
    computing: bool = False
    """True if the process tree used the processor, or waited for it, until the time limit."""
    limit: str | None = None
    """The exceeded limit, in words."""
    killed: bool = False
    """True if the kernel killed any process on this machine during the run,
    because memory ran out.
    """
    memory: int = 0
    """Peak memory of all processes together, in bytes."""
    ignored_sigterm: bool = False
    left_behind: int = 0
    """Number of processes that still ran when the first process had ended."""
    unkillable: int = 0


def watch(
    command: Callable[[int, int], list[str]],
    environment: Mapping[str, str],
    directory: Path,
    scratch: Path,
    limits: Limits,
    stdin: IO[bytes],
    descriptors: Watch,
    user: int | None = None,
) -> Ended:
    """Run a command to its end or to a limit, kill all of its processes, and return the result.

    Args:
        command: returns the command line, given the file descriptors for its messages and for its
            stacks.
        directory: the working directory.
        scratch: the folder whose size is limited.
        stdin: the command's standard input.
        descriptors: file descriptors with a callback each. If a callback returns True, the run ends
            with ftrun.errors.Stopped.
        user: the user and group id for the command, without other groups. Default: unchanged.
    """
    options: dict = {"pipes": 2, "keep": KEPT, "tree": True, "stdin": stdin, "cwd": directory}
    if user is not None:
        options |= {"user": user, "group": user, "extra_groups": []}
    kills = cgroup.kills()
    child = Child(command, environment, **options)
    with contextlib.closing(child):
        status, stacks = child.pipes
        result = Ended(0, 0.0, child.stdout, child.stderr, stacks, status)
        look = _limiter(child, scratch, limits, result)
        try:
            _wait(child, limits, descriptors, look, result)
            if result.timed_out and not child.read_stacks(DUMP_SIGNAL, stacks, descriptors, look):
                child.signal(signal.SIGTERM, group=True)
                result.ignored_sigterm = not child.listen(descriptors, GRACE_SECONDS, look=look)
        except LimitBroken as broken:
            result.limit = str(broken)
        result.seconds = limits.timeout if result.timed_out else child.seconds
        result.killed = cgroup.kills() > kills
        child.kill()
        child.listen({}, DRAIN_SECONDS)
        result.returncode = child.returncode
        result.left_behind = child.left_behind
        result.unkillable = child.unkillable
    return result


def _wait(
    child: Child, limits: Limits, descriptors: Watch, look: Callable[[], None], result: Ended
) -> None:
    """Wait until the child ends or its time is up; note in *result* if it was, and if the process
    tree was computing then.
    """
    last = min(LAST_SECONDS, limits.timeout / 2)
    if child.listen(descriptors, limits.timeout - last, look=look):
        return
    used, waited = _busy(child.descendants(limits.processes))
    result.timed_out = not child.listen(descriptors, last, look=look)
    used_at_end, waited_at_end = _busy(child.descendants(limits.processes))
    # Threads that have ended take their time of waiting along.
    busy = used_at_end - used + max(waited_at_end - waited, 0.0)
    result.computing = result.timed_out and busy >= LEAST_SHARE * last


def _busy(pids: list[int]) -> tuple[float, float]:
    """Return the seconds for which processes have used a processor,
    and for which they have waited for one.
    """
    return process_tree.cpu_seconds(pids), process_tree.waiting_seconds(pids)


def _limiter(child: Child, scratch: Path, limits: Limits, result: Ended) -> Callable[[], None]:
    """Return a function that checks the limits of the process tree,
    and raises LimitBroken if one is exceeded.
    """
    next_look = 0.0

    def look() -> None:
        nonlocal next_look
        if child.stdout.total + child.stderr.total > limits.output:
            raise LimitBroken(
                f"printed more than {limits.output // MIB} MiB (--output raises the limit)"
            )
        if time.monotonic() < next_look:
            return
        next_look = time.monotonic() + LOOK_SECONDS
        processes = child.descendants(limits.processes + 1)
        if len(processes) > limits.processes:
            raise LimitBroken(
                f"had more than {limits.processes} processes at once (--processes raises the limit)"
            )
        used = process_tree.memory(processes, limits.memory)
        result.memory = max(result.memory, used)
        if used > limits.memory:
            raise LimitBroken(
                f"used more than {limits.memory // MIB} MiB of memory (--memory raises the limit)"
            )
        if _size(scratch, limits.disk) > limits.disk:
            raise LimitBroken(
                f"wrote more than {limits.disk // MIB} MiB into its scratch folder (--disk "
                f"raises the limit)"
            )

    return look


def _size(directory: Path, enough: int) -> int:
    """Return the number of bytes that a folder takes on disk.

    If it takes more than *enough* bytes or has more than MOST_FILES files,
    return any number above *enough*.
    """
    total = files = 0
    waiting = [str(directory)]
    while waiting and total <= enough:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            # gone, or made unreadable
            for entry in entries:
                files += 1
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                if files > MOST_FILES:
                    return enough + 1
    return total
