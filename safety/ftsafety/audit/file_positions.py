"""Positions of open files. A read or seek in one thread moves the position
of a file for all threads.
"""

import contextlib
import fcntl
import io
import mmap
import os
import stat
from typing import Any, NamedTuple

from ftloader.diagnosis.lookups import attributes_of, is_a


class OpenFile(NamedTuple):
    """Identity and name of an open file or memory map."""

    identity: tuple
    name: str


def has_position(value: Any) -> bool:
    """True if *value* is a file object or a memory map."""
    return is_a(value, (io.IOBase, mmap.mmap))


def positions(objects: list[Any]) -> dict[OpenFile, int]:
    """Return the position of each file object in *objects*,
    and of each regular file that this process reads.
    """
    positions = {}
    for value in objects:
        # Closed, not seekable, or a text file in the middle of an iteration:
        # its descriptor has the position then.
        with contextlib.suppress(Exception):
            name = str(getattr(value, "name", type(value).__name__))
            positions[OpenFile(("object", id(value)), name)] = value.tell()
    standard = set()
    for descriptor in _descriptors():
        with contextlib.suppress(OSError):  # the descriptor that lists the folder is closed by now
            status = os.fstat(descriptor)
            inode = status.st_dev, status.st_ino
            if descriptor <= 2:
                standard.add(inode)
            if not stat.S_ISREG(status.st_mode) or inode in standard:
                continue
            if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
                continue  # a log
            file = OpenFile(
                ("descriptor", descriptor, *inode), os.readlink(f"/proc/self/fd/{descriptor}")
            )
            positions[file] = os.lseek(descriptor, 0, os.SEEK_CUR)
    return positions


def _descriptors() -> list[int]:
    """Return this process's open descriptors; [] if none is left for listing them."""
    with contextlib.suppress(OSError):
        return sorted(map(int, os.listdir("/proc/self/fd")))
    return []


def of_object(value: Any) -> Any:
    """Return the file object inside *value* if it is an open archive (zip,
    tar), else *value* itself.
    """
    for name in ("fp", "fileobj"):
        inner = attributes_of(value).get(name)
        if is_a(inner, io.IOBase):
            return inner
    return value
