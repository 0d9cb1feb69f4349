"""The processes that a run has started, wherever they tried to hide.

This process declares itself the reaper of orphans below it (prctl(2), PR_SET_CHILD_SUBREAPER), so a
process that forks twice or starts a session of its own is still found below it, and can be ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time

PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PAGE = os.sysconf("SC_PAGE_SIZE")
# Nothing survives SIGKILL but a process that the kernel itself holds (a dead network file system).
PATIENCE_SECONDS = 10.0


def become_reaper() -> None:
    """Orphans below this process become its children. Linux only."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def become_opaque() -> None:
    """Other processes of the same user may not look into or write to this one (ptrace, /proc/PID/mem)."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def children(pid: int) -> list[int]:
    """The children of a process, zombies included; of all its threads."""
    found = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        with contextlib.suppress(OSError):
            found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return found


def below(pid: int, without: frozenset[int] = frozenset(), most: int = 1 << 30) -> list[int]:
    """All processes below `pid` but those `without` (and what is below them), parents first, at most `most`."""
    found: list[int] = []
    seen = set(without)
    waiting = [pid]
    while waiting and len(found) < most:
        for child in children(waiting.pop()):
            # A process that moves while it is looked for may be met twice.
            if child not in seen:
                seen.add(child)
                found.append(child)
                waiting.append(child)
    return found


def resident(pid: int) -> int:
    """Bytes of a process in memory, shared pages included; 0 if it has gone."""
    try:
        return int(_read(f"/proc/{pid}/statm").split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0


def end_all(without: frozenset[int], leader: int) -> int:
    """Kill everything below this process but those `without`, and reap it, except the child `leader`, whose
    status its owner wants.

    Returns how many are left after all: 0 but for processes that the kernel itself holds.
    """
    here = os.getpid()
    deadline = time.monotonic() + PATIENCE_SECONDS
    # First the group at once: a fork is refused while a signal to its group is pending.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    while True:
        living = [pid for pid in below(here, without) if not dead(pid)]
        # All are stopped before any is killed, or those who watch each other start new ones.
        for sent in (signal.SIGSTOP, signal.SIGKILL):
            for pid in living:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, sent)
        for pid in children(here):
            if pid not in without and pid != leader:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        if not living:
            return 0
        if time.monotonic() > deadline:
            return len(living)
        _wait_for(living[-1], 0.5)


def dead(pid: int) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[0] in b"ZX"
    except (OSError, IndexError):
        return True


def _read(path: str) -> bytes:
    """What a file of /proc says.

    Without a file object: CPython 3.13t takes a file's lock twice when it closes it, and gives the processor away 40
    times for each before it sees that it holds the lock itself. Among hundreds of busy processes, which is when this
    module matters, that took minutes.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _wait_for(pid: int, seconds: float) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return
    try:
        select.select([descriptor], [], [], seconds)
    finally:
        os.close(descriptor)
