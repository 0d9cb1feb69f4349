"""Reading and writing all of what is asked for, at a place in a file; and what files take of the disk."""

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

BLOCK = 4096  # files take whole blocks of the disk


def disk_usage(status: os.stat_result) -> int:
    """What a file takes of the disk."""
    return max(-(-status.st_size // BLOCK) * BLOCK, status.st_blocks * 512)


@contextlib.contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe in the file's place is not waited for
    try:
        yield fd
    finally:
        os.close(fd)


def read_bytes(fd: int, length: int, offset: int) -> bytes:
    data = os.pread(fd, length, offset)
    if len(data) == length:
        return data
    whole = bytearray(length)  # a system call reads 2 GB at most
    read_all(fd, memoryview(whole), offset)
    return bytes(whole)


def read_all(fd: int, view: memoryview, offset: int) -> None:
    while len(view):
        count = os.preadv(fd, [view], offset)
        if not count:
            raise OSError(errno.EIO, "the file is shorter than it should be")
        view, offset = view[count:], offset + count


def write_all(fd: int, data: Any, offset: int) -> None:
    view = memoryview(data)
    while len(view):
        count = os.pwrite(fd, view, offset)
        view, offset = view[count:], offset + count
