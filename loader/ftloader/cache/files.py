"""Functions that read or write a given number of bytes in full,
or compute how much disk space a file takes.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

BLOCK = 4096  # files take whole blocks of the disk


def disk_usage(status: os.stat_result) -> int:
    return max(-(-status.st_size // BLOCK) * BLOCK, status.st_blocks * 512)


@contextlib.contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """Context manager that opens a file and gives its descriptor. Opening a named pipe does not
    wait for a writer.
    """
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


def read_bytes(fd: int, length: int, offset: int) -> bytes:
    """Return *length* bytes of a file, from *offset* on.
    Raise ``OSError`` (EIO) if the file ends earlier.
    """
    data = os.pread(fd, length, offset)
    if len(data) == length:
        return data
    whole = bytearray(length)  # one system call reads at most 2 GB
    read_all(fd, memoryview(whole), offset)
    return bytes(whole)


def read_all(fd: int, view: memoryview, offset: int) -> None:
    """Fill *view* with a file's bytes, from *offset* on.
    Raise ``OSError`` (EIO) if the file ends earlier.
    """
    while len(view):
        count = os.preadv(fd, [view], offset)
        if not count:
            raise OSError(errno.EIO, "the file is shorter than it should be")
        view, offset = view[count:], offset + count


def write_all(fd: int, data: Any, offset: int) -> None:
    """Write all of *data* (any object with the buffer protocol) to a file, at *offset*."""
    view = memoryview(data)
    while len(view):
        count = os.pwrite(fd, view, offset)
        view, offset = view[count:], offset + count
