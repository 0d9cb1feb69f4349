"""The CPU time that a process and its workers have used."""

from __future__ import annotations

import contextlib
import resource


def cpu_seconds() -> float:
    """CPU time of this process and its descendants so far, those that run and those that have ended."""
    import psutil

    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    used = sum(u.ru_utime + u.ru_stime for u in usage)
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(child.cpu_times()[:4])  # its own and its children's, user and system
    return used
