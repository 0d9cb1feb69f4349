"""CPU time and memory of this process and its descendants."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import time
from dataclasses import dataclass
from pathlib import Path

MIB = 1024 * 1024


def own_seconds() -> float:
    """Return the CPU time of this process and of its descendants that have been waited for (s)."""
    used = 0.0
    for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(scope)
        used += usage.ru_utime + usage.ru_stime
    return used


def cpu_seconds() -> float:
    """Return the CPU time of this process and all its descendants so far,
    ended ones included (s).
    """
    import psutil

    used = own_seconds()
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(child.cpu_times()[:4])  # user and system, of itself and its ended children
    return used


@dataclass(frozen=True)
class Usage:
    """Memory of a process tree (MiB)."""

    total: float
    """Memory that the machine loses to the tree: anonymous memory, pages of files, and shared
    memory (/dev/shm, memfd).

    Anonymous memory that processes share is divided among them, so that the sum counts it once.
    Pages of files (libraries, mostly) count as if only this tree had mapped them. Otherwise the
    figure would depend on the other trials that are alive. Shared memory counts once, whether a
    process has mapped it or only holds its descriptor: a batch that waits in the queue of a worker
    process is mapped by no process. Descriptors on their way through a socket are missed; torch
    sends one at a time, when the consumer takes the batch.
    """
    uss: float
    """Unique set sizes: memory that no other process shares,
    and that the end of the process would free.
    """


def tree_usage() -> Usage:
    """Return the memory of this process and all its descendants now."""
    import psutil

    me = psutil.Process()
    anonymous_total = files = unique = 0
    shared: dict[tuple[int, int], int] = {}
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            try:
                anonymous, mapped, uss = _look(process, shared)
            except (psutil.AccessDenied, PermissionError):
                # of a setuid program, only the size may be read
                size = process.memory_info()
                anonymous = size.rss - size.shared
                mapped = 0
                uss = anonymous
            anonymous_total += anonymous
            # Workers map the files that their parent maps, or fewer.
            files = max(files, mapped)
            unique += uss
    return Usage((anonymous_total + files + sum(shared.values())) / MIB, unique / MIB)


def _look(process, shared: dict[tuple[int, int], int]) -> tuple[int, int, int]:
    """Return (own memory, mapped pages of files, USS) of a psutil.Process in bytes; add its shared
    memory to *shared*.

    *shared* is {(device, inode): bytes}, for shared memory that has a file descriptor or a name.
    Own memory is the process's part (PSS) of anonymous memory, and of shared memory that has
    neither a descriptor nor a name.
    """
    directory = Path(f"/proc/{process.pid}")
    kib = _by_kind(directory)
    # Before Linux 5.3 and in some sandboxes, the kernel does not report pages by kind: shared
    # memory counts if mapped.
    if not {"Pss_Anon", "Pss_Shmem", "RssFile"} <= kib.keys():
        full = process.memory_full_info()
        return full.pss, 0, full.uss
    for descriptor in (directory / "fd").iterdir():
        _add(descriptor, shared)
    unknown = _unnamed(directory, shared)
    unique = sum(value for name, value in kib.items() if name.startswith("Private_"))
    # Mappings without a descriptor or a name, such as semaphores: at most their lengths.
    memory = 1024 * kib["Pss_Anon"] + min(unknown, 1024 * kib["Pss_Shmem"])
    return memory, 1024 * kib["RssFile"], 1024 * unique


def _by_kind(directory: Path) -> dict[str, int]:
    """Return a process's memory by the kernel's names for its kinds (KiB); {} if unknown."""
    try:
        text = (directory / "smaps_rollup").read_text() + (directory / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    kib = {}
    for name, value in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE):
        kib[name] = int(value)
    return kib


def _unnamed(directory: Path, shared: dict[tuple[int, int], int]) -> int:
    """Add a process's mappings of named shared memory to *shared*; return the bytes of those that
    are not in *shared*.
    """
    unnamed = 0
    for line in (directory / "maps").read_text().splitlines():
        first, end, device, inode, name = _MAPPING.match(line).groups()  # type: ignore[union-attr]
        if name.startswith(SHARED):
            if not name.endswith(" (deleted)"):
                _add(Path(name), shared)
            major, minor = (int(part, 16) for part in device.split(":"))
            if (os.makedev(major, minor), int(inode)) not in shared:
                unnamed += int(end, 16) - int(first, 16)
    return unnamed


_MAPPING = re.compile(r"(\w+)-(\w+) \S+ \w+ (\S+) (\d+) *(.*)")
SHARED = ("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV")
"""Beginnings of the names of shared memory in /proc/PID/fd and /proc/PID/maps."""
_STARTED = time.time() - 1  # the times of files are those of the kernel's last tick


def _add(path: Path, shared: dict[tuple[int, int], int]) -> None:
    """Add the file at *path* to *shared* if the file is shared memory.

    A file older than this process was made by another program, so it is added with 0 bytes.
    """
    with contextlib.suppress(OSError):
        name = os.readlink(path) if path.is_symlink() else str(path)
        if name.startswith(SHARED[:2]):
            status = path.stat()
            is_new = status.st_ctime > _STARTED
            shared[status.st_dev, status.st_ino] = 512 * status.st_blocks if is_new else 0
