"""The kernel's page cache: dropping files from it, and how much of a file it holds. Linux only.

Dropping needs no privilege: posix_fadvise(2) with POSIX_FADV_DONTNEED requests that a file's clean
pages are dropped. Some file systems ignore the request: tmpfs has no other place for its files.
mincore(2) says how much is still cached.
"""

import ctypes
import mmap
import os
from collections.abc import Iterable
from pathlib import Path

# The fraction of dropped files that may stay cached:
# the kernel may keep a few pages that are in use.
LEFT_OVER = 0.05

_libc = ctypes.CDLL(None, use_errno=True)


class NotDropped(Exception):
    """Raised if files stay in the page cache; the message says where and why.
    `left`: mean fraction still cached.
    """

    def __init__(self, message: str, left: float) -> None:
        super().__init__(message)
        self.left = left


def drop(path: str | Path) -> None:
    """Write a file's changes to the disk, then ask the kernel
    to drop the file from the page cache; raises OSError.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        # Dirty pages are not dropped.
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def resident(path: str | Path) -> float | None:
    """Return the fraction of a file that is in the page cache (0 to 1); raises OSError.

    Returns None if this process may not write to the file, since mincore(2) then does not tell.
    """
    import numpy

    if not os.access(path, os.W_OK):
        # since Linux 5.2 mincore only tells a process that may write to the file
        return None
    if not os.path.getsize(path):
        return 0.0
    memory = numpy.memmap(path, mode="r")
    pages = numpy.empty(-(-memory.size // mmap.PAGESIZE), numpy.uint8)
    mapped = ctypes.c_void_p(memory.ctypes.data)
    residency = ctypes.c_void_p(pages.ctypes.data)
    if _libc.mincore(mapped, ctypes.c_size_t(memory.size), residency) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return float((pages & 1).mean())


def _mean_resident(paths: Iterable[str | Path]) -> float:
    """Return the mean of `resident` over the files whose pages this process may see."""
    fractions = [fraction for fraction in map(resident, paths) if fraction is not None]
    return sum(fractions) / len(fractions) if fractions else 0.0


def drop_all(paths: Iterable[str | Path]) -> float:
    """Drop files from the page cache; return the mean fraction still cached.
    Raises NotDropped if over LEFT_OVER.
    """
    paths = list(paths)
    for path in paths:
        drop(path)
    left = _mean_resident(paths)
    if left > LEFT_OVER:
        raise NotDropped(
            f"{left:.0%} of the files in {Path(paths[0]).parent} stay in the page cache though the "
            "kernel was asked to drop them: another program has them open or mapped, or their file "
            "system is in memory (name a directory on a disk in FT_BENCH_CACHE)",
            left,
        )
    return left
