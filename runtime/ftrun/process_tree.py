"""Functions that find, measure and kill all descendants of a process.

With `become_reaper`, this process adopts orphaned descendants. So a process that forks twice
remains a descendant.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import signal
import time
from collections.abc import Iterable

PR_SET_CHILD_SUBREAPER = 36
NONE: frozenset[int] = frozenset()
MOST_PROCESSES = 1 << 30
PAGE = os.sysconf("SC_PAGE_SIZE")
# Only a process that hangs in the kernel (on a dead network file system) survives SIGKILL for long.
PATIENCE_SECONDS = 10.0


def become_reaper() -> None:
    """Make this process adopt, from now on, each descendant whose own parent ends. Linux only."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children(pid: int) -> list[int]:
    """Return the ids of a process's children, zombies included."""
    ids: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                words = _read(f"/proc/{pid}/task/{task}/children").split()
                ids += map(int, words)
    return ids


def below(pid: int, without: frozenset[int] = NONE, most: int = MOST_PROCESSES) -> list[int]:
    """Return the ids of `pid`'s descendants, parents first.
    Stop once at least `most` ids are found.

    The processes `without` and their descendants are left out.
    """
    descendants: list[int] = []
    visited = set(without)
    waiting = [pid]
    while waiting and len(descendants) < most:
        for child in children(waiting.pop()):
            # A process that gets another parent during the search may be met twice.
            if child not in visited:
                visited.add(child)
                descendants.append(child)
                waiting.append(child)
    return descendants


def resident(pid: int) -> int:
    """Return the resident set size (RSS) of a process in bytes; 0 if the process has gone."""
    try:
        return int(_read(f"/proc/{pid}/statm").split()[1]) * PAGE
    except (OSError, IndexError, ValueError):
        return 0


def memory(pids: Iterable[int], enough: int) -> int:
    """Return the total memory of processes in bytes: the sum of their RSS.

    If several processes have more than `enough` bytes together,
    return the sum of their PSS instead.
    """
    pids = list(pids)
    total = sum(map(resident, pids))
    # The proportional size (PSS) counts a page that N forked processes share once.
    # It takes longer to find.
    if total > enough and len(pids) > 1:
        return sum(map(_proportional, pids))
    return total


def _proportional(pid: int) -> int:
    try:
        sizes = _read(f"/proc/{pid}/smaps_rollup")
    except OSError:  # it has gone, or is another user's
        return resident(pid)
    size = re.search(rb"^Pss:\s+(\d+) kB", sizes, re.MULTILINE)
    if not size:
        return resident(pid)
    return int(size[1]) * 1024


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time of processes, including the time
    of their children that ended and were waited for.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, IndexError):  # it has gone
            ticks = _status(pid)[11:15]
            total += sum(map(int, ticks))
    return total / os.sysconf("SC_CLK_TCK")


def waiting_seconds(pids: Iterable[int]) -> float:
    """Return the time that the living threads of processes have waited for a CPU; 0 if the kernel
    does not count it.
    """
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):  # it has gone
            for task in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError, IndexError):
                    times = _read(f"/proc/{pid}/task/{task}/schedstat").split()
                    total += int(times[1])
    return total / 1e9


def end_all(without: frozenset[int], leader: int) -> int:
    """Kill and reap this process's descendants; return the number that survive SIGKILL.

    The processes `without` and their descendants are spared. The child `leader` is killed but not
    reaped, so that the code that started it can read its exit status.
    """
    parent = os.getpid()
    spared = without | {leader}
    deadline = time.monotonic() + PATIENCE_SECONDS
    # The leader's group first: while a signal to the group is pending,
    # none of its processes can fork.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    while True:
        living = [pid for pid in below(parent, without) if not dead(pid)]
        _kill(living)
        _reap(set(children(parent)) - spared)
        # This process has adopted the child of a process that forked and ended during the search.
        if not living and not _living_children(parent, spared):
            return 0
        if time.monotonic() > deadline:
            return len(living)
        if living:
            _wait_for(living[-1], 0.5)


def _living_children(parent: int, spared: frozenset[int]) -> set[int]:
    living = set(children(parent)) - spared
    return {pid for pid in living if not dead(pid)}


def _kill(pids: Iterable[int]) -> None:
    # All are stopped before any is killed: processes that watch each other would start new ones.
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def _reap(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def dead(pid: int) -> bool:
    """True if a process has ended, reaped or not."""
    try:
        return _status(pid)[0] in b"ZX"
    except (OSError, IndexError):
        return True


def _status(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat after the program's name,
    which may hold spaces and brackets.
    """
    line = _read(f"/proc/{pid}/stat")
    return line.rpartition(b")")[2].split()


def _read(path: str) -> bytes:
    """Return the content of a file in /proc, read without a Python file object."""
    # CPython 3.13t takes a file object's lock twice at its end, and yields the processor 40 times
    # each time before it notices that it holds the lock already. With hundreds of busy processes
    # that took minutes.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _wait_for(pid: int, seconds: float) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid)
        select.select([descriptor], [], [], seconds)
        os.close(descriptor)
