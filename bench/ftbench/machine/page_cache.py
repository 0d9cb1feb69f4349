"""The kernel's page cache: dropping files from it, and how much of a file it holds. Linux only.

Dropping needs no privilege: posix_fadvise(2) with POSIX_FADV_DONTNEED requests that a file's clean pages are dropped.
Some file systems ignore it (tmpfs keeps its files nowhere else). mincore(2) says how much is left.
"""

import ctypes
import mmap
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

PROBE_BYTES = 1 << 20
# The part of a dropped file that may be left: the kernel may keep a few pages that are in use.
LEFT_OVER = 0.05

_libc = ctypes.CDLL(None, use_errno=True)


class NotDropped(Exception):
    """Raised if files are still in the page cache; the message says where and why."""


def drop(path: str | Path) -> None:
    """Write the file's changes to its disk and ask the kernel to drop its pages; raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        # Dirty pages are not dropped.
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def resident(path: str | Path) -> float | None:
    """Return the part of a file that is in the page cache, 0 to 1; None if the kernel does not say. Raises OSError."""
    import numpy

    if not os.access(path, os.W_OK):  # since Linux 5.2 it only tells a process that may write to the file
        return None
    if not os.path.getsize(path):
        return 0.0
    memory = numpy.memmap(path, mode="r")
    pages = numpy.empty(-(-memory.size // mmap.PAGESIZE), numpy.uint8)
    mapped, found = ctypes.c_void_p(memory.ctypes.data), ctypes.c_void_p(pages.ctypes.data)
    if _libc.mincore(mapped, ctypes.c_size_t(memory.size), found) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return float((pages & 1).mean())


def drop_all(paths: Iterable[str | Path]) -> float:
    """Drop the files; return the mean part of them that is left; raises NotDropped if it is more than LEFT_OVER."""
    paths = list(paths)
    for path in paths:
        drop(path)
    known = [part for part in map(resident, paths) if part is not None]
    left = sum(known) / len(known) if known else 0.0
    if left > LEFT_OVER:
        raise NotDropped(
            f"{left:.0%} of the files in {Path(paths[0]).parent} stay in the page cache though the kernel "
            "was asked to drop them (another program has them open or mapped, or their file system "
            "is in memory)"
        )
    return left


def why_not_droppable(directory: Path) -> str | None:
    """Return why a temporary file in a directory (or its nearest parent) cannot be dropped; None if it can."""
    while not directory.is_dir():
        directory = directory.parent
    try:
        with tempfile.NamedTemporaryFile(prefix=".probe-", dir=directory) as probe:
            probe.write(os.urandom(PROBE_BYTES))
            probe.flush()
            drop_all([probe.name])
    except OSError:
        return None  # not writable, so the kernel does not say either what is left of its files
    except NotDropped:
        return (
            f"the file system of {directory} keeps its files in memory, so nothing can be read from a disk there; "
            "name a directory on a disk in FT_BENCH_CACHE"
        )
    return None
