"""What a process with its workers uses: CPU time and memory."""

from __future__ import annotations

import contextlib
import re
import resource
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024


def own_seconds() -> float:
    """CPU time of this process and the children it has waited for, with theirs."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in usage)


def cpu_seconds() -> float:
    """CPU time of this process and its descendants so far, those that run and those that have ended."""
    import psutil

    used = own_seconds()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(child.cpu_times()[:4])  # its own and its children's, user and system
    return used


@dataclass(frozen=True)
class Usage:
    """Memory of a process tree, MiB."""

    pss: float
    """Proportional set sizes: what processes share is divided among them, so that the sum counts it once.

    The pages of files (libraries, mostly) are counted as if nobody but the tree had mapped them. Other trials
    may be alive, and their share of the same libraries says nothing about this one.
    """
    uss: float
    """Unique set sizes: what no other process has, and the end of the process would free."""


def tree_usage() -> Usage:
    """The memory of this process and all its descendants now."""
    import psutil

    me = psutil.Process()
    own = files = unique = 0
    for process in (me, *me.children(recursive=True)):
        try:
            pss, mapped, uss = _look(process)
        except psutil.NoSuchProcess:
            continue
        # Workers map what the process that started them does, or less.
        own, files, unique = own + pss, max(files, mapped), unique + uss
    return Usage((own + files) / MIB, unique / MIB)


def _look(process) -> tuple[int, int, int]:
    """(PSS without the pages of files, all pages of files that it has mapped, USS) of a psutil.Process, bytes.

    Where the kernel does not tell files apart (before Linux 5.3, some sandboxes), PSS is with them and there are none.
    Raises psutil.NoSuchProcess if it has ended.
    """
    directory = Path(f"/proc/{process.pid}")
    try:
        text = (directory / "smaps_rollup").read_text() + (directory / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        text = ""
    kib = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    if not {"Pss", "Pss_File", "RssFile"} <= kib.keys():
        full = process.memory_full_info()
        return full.pss, 0, full.uss
    unique = sum(value for name, value in kib.items() if name.startswith("Private_"))
    return 1024 * (kib["Pss"] - kib["Pss_File"]), 1024 * kib["RssFile"], 1024 * unique
