"""Segments, in which a cache keeps its samples. The samples of a sealed segment never change.

``record`` describes the file, and what sealed and synced mean; ``formats`` the formats of the
samples. A process that starts to write to a cache checks every sample of unsynced segments. In a
TFRecord cache, a segment has a second file, for its samples. This file is made after the segment's
own and removed before it.
"""

import contextlib
import errno
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ftloader.cache import record
from ftloader.cache.errors import CacheError, CorruptSampleError
from ftloader.cache.files import disk_usage, opened, read_all, read_bytes, write_all
from ftloader.cache.formats import FORMATS, SUFFIX, TFRECORD, TFRECORD_SUFFIX, Format, format_of

DAMAGED_SUFFIX = ".damaged"
OWN = re.compile(r"\d{10,}-[0-9a-f]{8}\.(segment|tfrecord|damaged)")
"""Names of the cache's files. Other files in the directory belong to other programs."""
_OF_THE_PROCESS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the process, which say nothing about a file: too many open files, no memory."""
_CHECKED_AT_ONCE = 1 << 22
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Segment:
    """Sealed segment, for reading. Any number of threads may read a segment,
    since nothing of it changes.

    ``data_path`` is the path of the file that has the samples:
    the segment's own file or the TFRecord file.
    """

    def __init__(
        self, directory: str, name: str, format: Format, keys: tuple[str, ...], rows: np.ndarray
    ) -> None:
        self.directory, self.name, self.format, self.keys, self.rows = (
            directory,
            name,
            format,
            keys,
            rows,
        )
        self.data_path = format.data_path(self.path)
        self.size = usage(directory, name)
        self.number = number_of(name)

    def __len__(self) -> int:
        return len(self.keys)

    def __reduce__(self) -> tuple:
        return load, (self.directory, self.name)

    def nbytes(self, row: int) -> int:
        """Return the size in bytes of sample *row*. Raise ``CorruptSampleError`` if the segment's
        files are smaller.
        """
        length = int(self.rows["length"][row])
        if length > self.size:
            raise CorruptSampleError(
                f"sample {self.keys[row]!r} in {self.data_path} is damaged: {length} bytes"
            )
        return length

    def read(self, row: int) -> bytes:
        """Return sample *row*. Raise ``CorruptSampleError`` if damaged, ``OSError`` if out of
        memory or descriptors.
        """
        return self._checked(row, lambda fd, offset, length: read_bytes(fd, length, offset))

    def read_into(self, row: int, array: np.ndarray) -> None:
        """Fill *array* with sample *row*. Raise ``CacheError`` if *array* is not contiguous or has
        a wrong size.
        """
        if array.nbytes != self.nbytes(row):
            raise CacheError(
                f"sample {self.keys[row]!r} has {self.nbytes(row)} bytes, and the array "
                f"{array.nbytes}"
            )
        if not array.flags.c_contiguous:
            raise CacheError(f"the array for sample {self.keys[row]!r} is not contiguous (C order)")
        view = memoryview(array.reshape(-1).view(np.uint8))

        def fill(fd: int, offset: int, _: int) -> memoryview:
            read_all(fd, view, offset)
            return view

        self._checked(row, fill)

    def _checked(self, row: int, read: Callable[[int, int, int], Any]) -> Any:
        index_row = self.rows[row].item()
        offset, length = index_row[:2]
        try:
            with opened(self.data_path, os.O_RDONLY | os.O_NOFOLLOW) as fd:
                if offset + length > os.fstat(fd).st_size:
                    raise OSError(errno.EIO, "the file is shorter than it should be")
                data = read(fd, offset, length)
                right = self.format.is_right(fd, index_row, (data,))
        except OSError as error:
            if error.errno in _OF_THE_PROCESS:
                raise
            raise CorruptSampleError(
                f"sample {self.keys[row]!r} cannot be read from {self.data_path}: {error}"
            ) from error
        if not right:
            raise CorruptSampleError(
                f"sample {self.keys[row]!r} in {self.data_path} is damaged: its checksum differs"
            )
        return data

    def mark_damaged(self) -> None:
        """Report a damaged sample to the writer, by an empty file.
        Ignore errors: the next read tries again.
        """
        with contextlib.suppress(OSError):
            os.close(os.open(self.path.removesuffix(SUFFIX) + DAMAGED_SUFFIX, _NEW, 0o666))

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)


class SegmentWriter:
    """Writer of a new segment. Many threads may call ``write`` at once.
    All other calls need the store's lock.

    The constructor allocates ``size`` bytes of disk, rows and trailer included. It raises an error
    if the disk is full. ``users`` is the number of unfinished writes.
    """

    def __init__(
        self, directory: str, number: int, size: int, format: Format = FORMATS["segment"]
    ) -> None:
        self.directory, self.size, self.format = directory, size, format
        self.name = f"{number:010d}-{secrets.token_hex(4)}{SUFFIX}"
        self.path = os.path.join(directory, self.name)
        self.users = 0
        self._rows: list[tuple] = []
        self.keys: list[str] = []
        self._end = format.start  # of the last record
        self._index_size = record.TRAILER.size  # rows, keys and trailer
        own_size, data_path = format.own_size(size), format.data_path(self.path)
        self._fd = self._data = os.open(self.path, _NEW, 0o666)
        try:
            os.posix_fallocate(self._fd, 0, own_size)
            write_all(self._fd, record.head(format.version), 0)
            if data_path != self.path:
                self._data = os.open(data_path, _NEW, 0o666)
                os.posix_fallocate(self._data, 0, size - own_size)
        except BaseException:
            self.close()
            unlink(self.path)
            raise

    def __len__(self) -> int:
        """Number of complete samples."""
        return len(self._rows)

    def fits(self, key: bytes, length: int) -> bool:
        """Return True if the segment has room for another sample, of *length* bytes."""
        index_size = self._index_size + record.ROW.itemsize + len(key)
        return self.format.fits(self.size, index_size, self._end + self.format.record_size(length))

    def begin(self, key: bytes, length: int, crc: int) -> tuple:
        """Reserve room for a sample of *length* bytes. Return its row,
        to be passed to ``write`` and ``complete``.
        """
        offset = self._end + self.format.before
        self._end += self.format.record_size(length)
        self._index_size += record.ROW.itemsize + len(key)
        self.users += 1
        return offset, length, crc, len(key), time.time()

    def write(self, row: tuple, data: bytes | memoryview) -> None:
        """Write a sample's bytes, *data*, to the place
        that ``begin`` reserved when it returned *row*.
        """
        self.format.write(self._data, row, data)

    def complete(self, row: tuple, key: str) -> None:
        """Add *row* and *key* to the segment's index, after ``write`` has written the sample."""
        self._rows.append(row)
        self.keys.append(key)

    def seal(self) -> Segment | None:
        """Finish the segment and return it as a ``Segment``.
        If it has no samples, remove it and return None.
        """
        if self._fd < 0:  # Ctrl-C interrupted an earlier call: the next writer removes the segment
            return None
        try:
            if not self._rows:
                unlink(self.path)
                return None
            rows, keys = map(list, zip(*sorted(zip(self._rows, self.keys))))
            table = np.array(self.format.without_gaps(self._data, rows), record.ROW)
            start = self.format.index_start(self._end)
            index = record.end(table, keys, start)
            # Truncate last: blocks that were cut off first could be missing on a full disk. In the
            # longer file no reader looks for the trailer here.
            write_all(self._fd, index, start)
            os.ftruncate(self._fd, start + len(index))
            return Segment(self.directory, self.name, self.format, tuple(keys), table)
        finally:
            self.close()

    def close(self) -> None:
        fds = {self._fd, self._data} - {-1}
        self._fd = self._data = -1
        for fd in fds:
            os.close(fd)


def number_of(name: str) -> int:
    """Return the number that a segment's name starts with.
    Segments are numbered in the order of their creation.
    """
    return int(name.partition("-")[0])


def names_in(directory: str, suffix: str = SUFFIX) -> list[str]:
    """Return the names of the segments to which the files ``*suffix`` in *directory* belong,
    the oldest first.

    A segment's name ends in ``SUFFIX``, whatever *suffix* is.
    """
    names = [
        name for name in os.listdir(directory) if OWN.fullmatch(name) and name.endswith(suffix)
    ]
    return sorted(
        (name.removesuffix(suffix) + SUFFIX for name in names),
        key=lambda name: (number_of(name), name),
    )


def load(directory: str, name: str) -> Segment:
    """Return the sealed segment *name*. Raise ``CacheError`` if the file is missing,
    unreadable or not sealed.
    """
    try:
        with _both_opened(directory, name, os.O_RDONLY) as (format, fd, _):
            trailer = record.read_end(fd)
        if format is not None and trailer is not None:
            rows, keys, _ = trailer
            return Segment(directory, name, format, keys, rows)
    except OSError as error:
        raise CacheError(
            f"the segment {name} of the cache {directory} cannot be read: {error}"
        ) from error
    raise CacheError(f"the segment {name} of the cache {directory} is not complete")


def recover(directory: str, name: str, most: int | None = None) -> Segment | None:
    """Return the segment *name* of an earlier writer; None if it has to be removed.

    It has to be removed if it is missing, not sealed, unreadable (EIO) or larger than *most* bytes,
    or if it is not synced and has a damaged sample. Raise ``CacheError`` if another program or
    version wrote it, ``OSError`` for other errors in reading.
    """
    try:
        with _both_opened(directory, name, os.O_RDONLY) as (format, fd, data):
            if format is None or (most is not None and usage(directory, name) > most):
                return None
            trailer = record.read_end(fd)
            if trailer is None:
                return None
            rows, keys, synced = trailer
            if not synced and not all(_is_intact(format, data, row) for row in rows.tolist()):
                return None
            return Segment(directory, name, format, keys, rows)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EIO):
            return None
        # Errors of open files lack the name.
        raise OSError(
            error.errno, os.strerror(error.errno or 0), os.path.join(directory, name)
        ) from error


def usage(directory: str, name: str) -> int:
    """Return the disk usage of a segment's files in bytes. The files are not opened."""
    path = os.path.join(directory, name)
    paths = filter(os.path.lexists, (path, TFRECORD.data_path(path)))
    return sum(disk_usage(os.lstat(file)) for file in paths)


def remove_strays(directory: str) -> None:
    """Remove TFRecord files without a segment file. A crash can leave such files."""
    for name in names_in(directory, TFRECORD_SUFFIX):
        path = os.path.join(directory, name)
        if not os.path.lexists(path):
            os.unlink(TFRECORD.data_path(path))


def sync(directory: str, name: str) -> None:
    """Sync a sealed segment to the disk, wait for that,
    and record it in the trailer. Ignore a missing segment.
    """
    with (
        contextlib.suppress(FileNotFoundError),
        _both_opened(directory, name, os.O_RDWR) as (_, fd, data),
    ):
        trailer = record.read_end(fd)
        if trailer is None or trailer[2]:
            return
        for descriptor in {fd, data}:
            os.fdatasync(descriptor)
        with opened(directory, os.O_RDONLY) as folder:
            os.fsync(folder)
        write_all(fd, (1).to_bytes(8, "little"), os.fstat(fd).st_size - 8)


def _is_intact(format: Format, fd: int, row: tuple) -> bool:
    offset, length = row[:2]
    end = offset + length
    starts = range(offset, end, _CHECKED_AT_ONCE)
    pieces = (os.pread(fd, min(_CHECKED_AT_ONCE, end - start), start) for start in starts)
    return end <= os.fstat(fd).st_size and format.is_right(fd, row, pieces)


@contextlib.contextmanager
def _both_opened(directory: str, name: str, flags: int) -> Iterator[tuple[Format | None, int, int]]:
    """Context manager that opens a segment's file and the file of its samples.
    Gives (format, their descriptors).

    Without TFRecord, both descriptors are the same: the samples are in the segment's own file. The
    format is None if the segment's head is damaged, or if its TFRecord file is missing or one is
    there that it should not have."""
    path, flags = os.path.join(directory, name), flags | os.O_NOFOLLOW
    with opened(path, flags) as fd:
        format = format_of(fd, name)
        data_path = path if format is None else format.data_path(path)
        if os.path.lexists(TFRECORD.data_path(path)) != (data_path != path):
            format, data_path = None, path
        with contextlib.nullcontext(fd) if data_path == path else opened(data_path, flags) as data:
            yield format, fd, data


def unlink(path: str) -> None:
    """Remove the segment file *path* and, if they exist,
    its TFRecord file and the file that ``mark_damaged`` made.
    """
    for file in (TFRECORD.data_path(path), path, path.removesuffix(SUFFIX) + DAMAGED_SUFFIX):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file)
