"""Segments: the files of a cache. Each holds samples one behind the other, and is never changed once it is sealed.

    head | record | record | ... | rows | keys | trailer

A record is a header (lengths, checksums, time), the key and the sample. Headers are written in the order of the file,
so that what was left of a segment by a crash can be walked from its begin. A row is what the header says, and where the
sample is. The trailer says where the rows begin, and is the last that is written; a segment with a valid one is sealed.
Its last byte is set when all before it has reached the disk (``fdatasync``). What a segment without that byte holds is
checked, sample by sample, by the next writer that opens the cache.

All numbers are little-endian, checksums are CRC-32 (``zlib.crc32``).
"""

import contextlib
import errno
import os
import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ftloader.cache.errors import CacheError, CorruptSampleError

SUFFIX = ".segment"
BLOCK = 4096  # files take whole blocks of the disk
VERSION = 1

_HEAD = struct.Struct("<8sI4x")  # magic, version
_RECORD = struct.Struct("<IIIIQd")  # magic, checksum of what follows and the key, of the sample, lengths, time
_TRAILER = struct.Struct("<8sIIQQQ")  # magic, checksum of rows and keys, its own, begin of the rows, rows, 1 if synced
_MAGIC, _RECORD_MAGIC, _TRAILER_MAGIC = b"ftcache\n", 0x44524352, b"ftsealed"
_ROW = np.dtype([("offset", "<u8"), ("length", "<u8"), ("crc", "<u4"), ("key", "<u4"), ("time", "<f8")])


class Segment:
    """A sealed segment. Immutable but for ``used``, so any number of threads may read it.

    ``used`` is when a sample of it was last read, in this process: written by readers without a lock, since which of
    two moments remains does not matter.
    """

    __slots__ = ("_rows", "directory", "keys", "name", "number", "size", "used")

    def __init__(self, directory: str, name: str, keys: tuple[str, ...], rows: np.ndarray, size: int) -> None:
        self.directory, self.name, self.keys, self.size = directory, name, keys, size
        self._rows = rows
        self.number = number_of(name)
        self.used = 0.0

    def __len__(self) -> int:
        return len(self.keys)

    def __reduce__(self) -> tuple:
        return load, (self.directory, self.name)

    @property
    def times(self) -> np.ndarray:
        """When each sample was written, by the clock of then."""
        return self._rows["time"]

    def nbytes(self, row: int) -> int:
        return int(self._rows["length"][row])

    def read(self, row: int) -> bytes:
        """The sample. Raises ``CorruptSampleError`` rather than giving another."""
        return self._checked(row, lambda fd, offset, length: _read(fd, length, offset))

    def read_into(self, row: int, out: np.ndarray) -> None:
        """Fills *out*, a contiguous array of its size, with the sample. Raises as ``read`` does."""
        view = memoryview(out.reshape(-1).view(np.uint8))

        def fill(fd: int, offset: int, _: int) -> memoryview:
            _read_all(fd, view, offset)
            return view

        self._checked(row, fill)

    def _checked(self, row: int, read: Callable[[int, int, int], Any]) -> Any:
        self.used = time.monotonic()
        offset, length, crc, _, _ = self._rows[row].item()
        try:
            with _opened(self.path, os.O_RDONLY) as fd:
                data = read(fd, offset, length)
        except OSError as error:
            raise CorruptSampleError(f"sample {self.keys[row]!r} cannot be read from {self.path}: {error}") from error
        if zlib.crc32(data) != crc:
            raise CorruptSampleError(f"sample {self.keys[row]!r} in {self.path} is damaged: its checksum differs")
        return data

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)


class SegmentWriter:
    """A new segment. The store's lock guards all but ``write``, of which several threads are in the midst at a time.

    ``size`` bytes of the disk are taken at once, what the end needs included, so that a full disk shows here, and
    not when samples have been written. ``users`` counts those who write, and the store as long as it adds to it.
    """

    def __init__(self, directory: str, number: int, size: int) -> None:
        self.directory, self.size = directory, size
        self.name = f"{number:010d}-{secrets.token_hex(4)}{SUFFIX}"
        self.users = 1
        self._rows: list[tuple] = []
        self._keys: list[str] = []
        self._end = _HEAD.size
        self._reserved = _HEAD.size + _TRAILER.size
        path = os.path.join(directory, self.name)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        try:
            os.posix_fallocate(self._fd, 0, size)
            _write_all(self._fd, _HEAD.pack(_MAGIC, VERSION), 0)
        except BaseException:
            os.close(self._fd)
            os.unlink(path)
            raise

    def __len__(self) -> int:
        """Samples that are complete."""
        return len(self._rows)

    @staticmethod
    def size_for(key: bytes, length: int) -> int:
        """How large a segment of one sample is."""
        return _HEAD.size + _TRAILER.size + _needs(key, length)

    def fits(self, key: bytes, length: int) -> bool:
        return self._reserved + _needs(key, length) <= self.size

    def begin(self, key: bytes, length: int, crc: int) -> tuple:
        """Makes place for a sample. Returns its row, which ``write`` and ``complete`` take."""
        now = time.time()
        rest = struct.pack("<IIQd", crc, len(key), length, now) + key
        _write_all(self._fd, struct.pack("<II", _RECORD_MAGIC, zlib.crc32(rest)) + rest, self._end)
        offset = self._end + _RECORD.size + len(key)
        self._end = offset + length
        self._reserved += _needs(key, length)
        self.users += 1
        return offset, length, crc, len(key), now

    def write(self, row: tuple, data: bytes | memoryview) -> None:
        _write_all(self._fd, data, row[0])

    def complete(self, row: tuple, key: str) -> None:
        self._rows.append(row)
        self._keys.append(key)

    def seal(self) -> Segment | None:
        """Ends the file; None, and no file, if nothing is in it."""
        try:
            return _seal(self._fd, self.directory, self.name, self._end, self._rows, self._keys)
        finally:
            os.close(self._fd)


def number_of(name: str) -> int:
    """Segments are numbered as they are begun. (Not by time: clocks jump.)"""
    return int(name.partition("-")[0])


def names_in(directory: str) -> list[str]:
    """The segments of *directory*, the oldest first."""
    return sorted(name for name in os.listdir(directory) if name.endswith(SUFFIX))


def load(directory: str, name: str) -> Segment:
    """A sealed segment. Raises ``CacheError`` if it is none."""
    try:
        with _opened(os.path.join(directory, name), os.O_RDONLY) as fd:
            _check_version(fd, directory)
            found = _read_end(fd)
            size = disk_usage(os.fstat(fd))
    except OSError as error:
        raise CacheError(f"the segment {name} of the cache {directory} cannot be read: {error}") from error
    if found is None:
        raise CacheError(f"the segment {name} of the cache {directory} is not complete")
    rows, keys, _, _ = found
    return Segment(directory, name, keys, rows, size)


def recover(directory: str, name: str) -> Segment | None:
    """A segment as an earlier writer left it, with the samples that are intact; None, and no file, if there are none.

    Raises ``CacheError``, and changes nothing, if it is of another version.
    """
    with _opened(os.path.join(directory, name), os.O_RDWR) as fd:
        _check_version(fd, directory)
        found = _read_end(fd)
        if found is not None and found[3]:
            return Segment(directory, name, found[1], found[0], disk_usage(os.fstat(fd)))
        if found is None:
            pairs = list(_walk(fd))
        else:
            pairs = [(row.item(), key) for row, key in zip(found[0], found[1])]
        intact = [(row, key) for row, key in pairs if _is_intact(fd, row)]
        end = max((row[0] + row[1] for row, _ in pairs), default=_HEAD.size)
        return _seal(fd, directory, name, end, [row for row, _ in intact], [key for _, key in intact])


def sync(directory: str, name: str) -> None:
    """Waits until a sealed segment has reached the disk, and notes that in it. Not an error if it is gone by now."""
    with contextlib.suppress(FileNotFoundError), _opened(os.path.join(directory, name), os.O_RDWR) as fd:
        if (found := _read_end(fd)) is None or found[3]:
            return
        os.fdatasync(fd)
        with _opened(directory, os.O_RDONLY) as folder:
            os.fsync(folder)
        _write_all(fd, (1).to_bytes(8, "little"), os.fstat(fd).st_size - 8)


def disk_usage(status: os.stat_result) -> int:
    """What a file takes of the disk."""
    return max(-(-status.st_size // BLOCK) * BLOCK, status.st_blocks * 512)


def _seal(fd: int, directory: str, name: str, end: int, rows: list[tuple], keys: list[str]) -> Segment | None:
    if not rows:
        os.unlink(os.path.join(directory, name))
        return None
    table = np.array(rows, _ROW)
    index = table.tobytes() + b"".join(map(encoded, keys))
    parts = zlib.crc32(index), end, len(rows)
    trailer = _TRAILER.pack(_TRAILER_MAGIC, parts[0], zlib.crc32(repr(parts).encode()), *parts[1:], 0)
    # In the longer file nobody looks for a trailer here. What is cut off first could be missing on a full disk.
    _write_all(fd, index + trailer, end)
    os.ftruncate(fd, end + len(index) + len(trailer))
    return Segment(directory, name, tuple(keys), table, disk_usage(os.fstat(fd)))


def _read_end(fd: int) -> tuple[np.ndarray, tuple[str, ...], int, bool] | None:
    """(rows, keys, where the records end, whether all of it was synced); None without a valid trailer."""
    at = os.fstat(fd).st_size - _TRAILER.size
    if at < _HEAD.size:
        return None
    magic, crc, own, begin, count, synced = _TRAILER.unpack(os.pread(fd, _TRAILER.size, at))
    if magic != _TRAILER_MAGIC or own != zlib.crc32(repr((crc, begin, count)).encode()):
        return None
    index = bytearray(at - begin)
    _read_all(fd, memoryview(index), begin)
    if zlib.crc32(index) != crc:
        return None
    rows = np.frombuffer(index, _ROW, count)
    ends = np.cumsum(rows["key"], dtype=np.int64) + count * _ROW.itemsize
    begins = ends - rows["key"]
    keys = tuple(_decoded(index[first:last]) for first, last in zip(begins.tolist(), ends.tolist()))
    return rows, keys, begin, synced == 1


def _walk(fd: int) -> Iterator[tuple[tuple, str]]:
    """(row, key) of each record up to the first whose header is not valid."""
    at, size = _HEAD.size, os.fstat(fd).st_size
    while at + _RECORD.size <= size:
        header = os.pread(fd, _RECORD.size, at)
        magic, check, crc, key_length, length, when = _RECORD.unpack(header)
        if magic != _RECORD_MAGIC or at + _RECORD.size + key_length + length > size:
            return
        key = os.pread(fd, key_length, at + _RECORD.size)
        if zlib.crc32(header[8:] + key) != check:
            return
        at += _RECORD.size + key_length
        yield (at, length, crc, key_length, when), _decoded(key)
        at += length


def _is_intact(fd: int, row: tuple, at_once: int = 1 << 22) -> bool:
    offset, length, expected = row[:3]
    crc = 0
    for begin in range(offset, offset + length, at_once):
        part = os.pread(fd, min(at_once, offset + length - begin), begin)
        crc = zlib.crc32(part, crc)
    return crc == expected


def _check_version(fd: int, directory: str) -> None:
    head = os.pread(fd, _HEAD.size, 0)
    if len(head) < _HEAD.size or not any(head):
        return  # of a writer that was killed before it could write it: nothing follows
    magic, version = _HEAD.unpack(head)
    if magic != _MAGIC or version != VERSION:
        what = f"of version {version}" if magic == _MAGIC else "of another program"
        raise CacheError(f"{directory} has segments {what}; this is version {VERSION}. Take another directory")


def encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _decoded(key: bytes | bytearray) -> str:
    return key.decode("utf-8", "surrogatepass")


def _needs(key: bytes, length: int) -> int:
    """What a sample takes of a segment: the record, its row, and the key once more."""
    return _RECORD.size + _ROW.itemsize + 2 * len(key) + length


@contextlib.contextmanager
def _opened(path: str, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _read(fd: int, length: int, offset: int) -> bytes:
    data = os.pread(fd, length, offset)
    if len(data) == length:
        return data
    whole = bytearray(length)  # a system call reads 2 GB at most
    _read_all(fd, memoryview(whole), offset)
    return bytes(whole)


def _read_all(fd: int, view: memoryview, offset: int) -> None:
    while len(view):
        count = os.preadv(fd, [view], offset)
        if not count:
            raise OSError(errno.EIO, "the file is shorter than it should be")
        view, offset = view[count:], offset + count


def _write_all(fd: int, data: Any, offset: int) -> None:
    view = memoryview(data)
    while len(view):
        count = os.pwrite(fd, view, offset)
        view, offset = view[count:], offset + count
