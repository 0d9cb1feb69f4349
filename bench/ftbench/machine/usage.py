"""CPU time and memory of this process and its descendants."""

from __future__ import annotations

import contextlib
import re
import resource
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024


def own_seconds() -> float:
    """Return the CPU time of this process and of its descendants that have been waited for (s)."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def cpu_seconds() -> float:
    """Return the CPU time of this process and all its descendants so far, ended ones included (s)."""
    import psutil

    used = own_seconds()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(child.cpu_times()[:4])  # user and system, of itself and its ended children
    return used


@dataclass(frozen=True)
class Usage:
    """Memory of a process tree (MiB)."""

    pss: float
    """Proportional set sizes: memory that processes share is divided among them, so that the sum counts it once.

    Pages of files (libraries, mostly) count as if only this tree had mapped them. Otherwise the figure would depend on
    the other trials that are alive.
    """
    uss: float
    """Unique set sizes: memory that no other process shares, and that the end of the process would free."""


def tree_usage() -> Usage:
    """Return the memory of this process and all its descendants now."""
    import psutil

    me = psutil.Process()
    own = files = unique = 0
    for process in (me, *me.children(recursive=True)):
        try:
            pss, mapped, uss = _look(process)
        except psutil.NoSuchProcess:
            continue
        # Workers map the files that their parent maps, or fewer.
        own, files, unique = own + pss, max(files, mapped), unique + uss
    return Usage((own + files) / MIB, unique / MIB)


def _look(process) -> tuple[int, int, int]:
    """Return (PSS not counting mapped files, size of mapped files in memory, USS) of a psutil.Process, in bytes."""
    directory = Path(f"/proc/{process.pid}")
    try:
        text = (directory / "smaps_rollup").read_text() + (directory / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        text = ""
    kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    # Before Linux 5.3 and in some sandboxes, the kernel does not report pages of files separately.
    if not {"Pss", "Pss_File", "RssFile"} <= kib.keys():
        full = process.memory_full_info()
        return full.pss, 0, full.uss
    unique = sum(value for name, value in kib.items() if name.startswith("Private_"))
    return 1024 * (kib["Pss"] - kib["Pss_File"]), 1024 * kib["RssFile"], 1024 * unique
