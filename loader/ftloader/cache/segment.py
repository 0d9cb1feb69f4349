"""Segments: the files of a cache. Each holds samples one behind the other, and is never changed once it is sealed.

    head | record | record | ... | rows | keys | trailer

A record is a header (lengths, checksums, time), the key and the sample. Headers are written in the order of the file,
so that what was left of a segment by a crash can be walked from its begin. A row is what the header says, and where the
sample is. The trailer says where the rows begin, and is the last that is written; a segment with a valid one is sealed.
Its last byte is set when all before it has reached the disk (``fdatasync``). What a segment without that byte holds is
checked, sample by sample, by the next writer that opens the cache.

All numbers are little-endian, checksums are CRC-32 (``zlib.crc32``).

With ``FORMATS["tfrecord"]`` the samples are in a file beside it, a TFRecord file that has nothing else once the segment
is sealed. The segment is made before that file and removed after it. The checksums of samples are CRC-32C then.
"""

import contextlib
import os
import re
import secrets
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ftloader.cache import tfrecord
from ftloader.cache.disk import BLOCK, disk_usage, opened, read_all, read_bytes, write_all
from ftloader.cache.errors import CacheError, CorruptSampleError

SUFFIX, _DATA_SUFFIX = ".segment", ".tfrecord"
_OWN = re.compile(r"\d{10}-[0-9a-f]{8}\.(segment|tfrecord)")
"""The names of the cache's files. Others in the directory are somebody else's."""
FORMATS = {"segment": 1, "tfrecord": 2}
"""Where samples are: the version in a segment's head."""
_TFRECORD = FORMATS["tfrecord"]

_FRAME = tfrecord.HEADER + tfrecord.FOOTER
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
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

    __slots__ = ("_rows", "directory", "keys", "name", "number", "size", "used", "version")

    def __init__(
        self, directory: str, name: str, version: int, keys: tuple[str, ...], rows: np.ndarray, size: int
    ) -> None:
        self.directory, self.name, self.version, self.keys, self.size = directory, name, version, keys, size
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
        return self._checked(row, lambda fd, offset, length: [read_bytes(fd, length, offset)])[0]

    def read_into(self, row: int, arrays: Iterable[np.ndarray]) -> None:
        """Fills contiguous *arrays*, which have the sample's size together, with it. Raises as ``read`` does."""
        views = [memoryview(array.reshape(-1).view(np.uint8)) for array in arrays]

        def fill(fd: int, offset: int, _: int) -> list[memoryview]:
            for view in views:
                read_all(fd, view, offset)
                offset += len(view)
            return views

        self._checked(row, fill)

    def _checked(self, row: int, read: Callable[[int, int, int], list[Any]]) -> list[Any]:
        self.used = time.monotonic()
        offset, length, crc, _, _ = self._rows[row].item()
        try:
            with opened(self.data_path, os.O_RDONLY | os.O_NOFOLLOW) as fd:
                data = read(fd, offset, length)
                framed = self.version != _TFRECORD or _is_framed(fd, offset, length, crc)
        except OSError as error:
            raise CorruptSampleError(
                f"sample {self.keys[row]!r} cannot be read from {self.data_path}: {error}"
            ) from error
        found = 0
        for piece in data:
            found = checksum(self.version, piece, found)
        if not framed or found != crc:
            raise CorruptSampleError(f"sample {self.keys[row]!r} in {self.data_path} is damaged: its checksum differs")
        return data

    @property
    def path(self) -> str:
        return os.path.join(self.directory, self.name)

    @property
    def data_path(self) -> str:
        """The file that the samples are in."""
        return _data_path(self.path, self.version)

    def unlink(self) -> None:
        _unlink(self.path, self.version)


class SegmentWriter:
    """A new segment. The store's lock guards all but ``write``, of which several threads are in the midst at a time.

    ``size`` bytes of the disk are taken at once, what the end needs included, so that a full disk shows here, and
    not when samples have been written. ``users`` counts those who write, and the store as long as it adds to it.
    """

    def __init__(self, directory: str, number: int, size: int, version: int = 1) -> None:
        self.directory, self.size, self.version = directory, size, version
        self.name = f"{number:010d}-{secrets.token_hex(4)}{SUFFIX}"
        self.users = 1
        self._rows: list[tuple] = []
        self._keys: list[str] = []
        self._end = _HEAD.size
        self._reserved = _HEAD.size + _TRAILER.size
        self._data_end = 0  # of the TFRecord file
        self._most = size if version != _TFRECORD else _index_part(size)
        path = os.path.join(directory, self.name)
        self._fd = self._data = os.open(path, _NEW, 0o666)
        try:
            os.posix_fallocate(self._fd, 0, self._most)
            write_all(self._fd, _HEAD.pack(_MAGIC, version), 0)
            if version == _TFRECORD:
                self._data = os.open(_data_path(path, version), _NEW, 0o666)
                os.posix_fallocate(self._data, 0, size - self._most)
        except BaseException:
            self._close()
            _unlink(path, version)
            raise

    def __len__(self) -> int:
        """Samples that are complete."""
        return len(self._rows)

    @staticmethod
    def size_for(key: bytes, length: int, version: int = 1) -> int:
        """How large a segment of one sample is."""
        if version != _TFRECORD:
            return _HEAD.size + _TRAILER.size + _needs(key, length)
        index = -(-(_HEAD.size + _TRAILER.size + _needs(key, 0)) // BLOCK) * BLOCK
        return max(16 * index, -(-(length + _FRAME + BLOCK) * 16 // 15))

    def fits(self, key: bytes, length: int) -> bool:
        if self.version != _TFRECORD:
            return self._reserved + _needs(key, length) <= self._most
        there = self.size - self._most - self._data_end
        return self._reserved + _needs(key, 0) <= self._most and length + _FRAME <= there

    def begin(self, key: bytes, length: int, crc: int) -> tuple:
        """Makes place for a sample. Returns its row, which ``write`` and ``complete`` take."""
        now = time.time()
        rest = struct.pack("<IIQd", crc, len(key), length, now) + key
        write_all(self._fd, struct.pack("<II", _RECORD_MAGIC, zlib.crc32(rest)) + rest, self._end)
        offset = self._end + _RECORD.size + len(key)
        self._end = offset
        if self.version == _TFRECORD:
            offset = self._data_end + tfrecord.HEADER
            self._data_end = offset + length + tfrecord.FOOTER
            self._reserved += _needs(key, 0)
        else:
            self._end += length
            self._reserved += _needs(key, length)
        self.users += 1
        return offset, length, crc, len(key), now

    def write(self, row: tuple, data: bytes | memoryview) -> None:
        offset, length, crc = row[:3]
        write_all(self._data, data, offset)
        if self.version == _TFRECORD:
            write_all(self._data, tfrecord.header(length), offset - tfrecord.HEADER)
            write_all(self._data, tfrecord.footer(crc), offset + length)

    def complete(self, row: tuple, key: str) -> None:
        self._rows.append(row)
        self._keys.append(key)

    def seal(self) -> Segment | None:
        """Ends the file; None, and no file, if nothing is in it."""
        try:
            pairs = list(zip(self._rows, self._keys))
            return _seal((self._fd, self._data), self.directory, self.name, self.version, self._end, pairs)
        finally:
            self._close()

    def _close(self) -> None:
        for fd in {self._fd, self._data}:
            os.close(fd)


def number_of(name: str) -> int:
    """Segments are numbered as they are begun. (Not by time: clocks jump.)"""
    return int(name.partition("-")[0])


def names_in(directory: str) -> list[str]:
    """The segments of *directory*, the oldest first."""
    return sorted(name for name in os.listdir(directory) if _OWN.fullmatch(name) and name.endswith(SUFFIX))


def load(directory: str, name: str) -> Segment:
    """A sealed segment. Raises ``CacheError`` if it is none."""
    try:
        with _both_opened(directory, name, os.O_RDONLY) as (version, fds):
            found = _read_end(fds[0])
            size = _usage(fds)
    except OSError as error:
        raise CacheError(f"the segment {name} of the cache {directory} cannot be read: {error}") from error
    if found is None:
        raise CacheError(f"the segment {name} of the cache {directory} is not complete")
    rows, keys, _, _ = found
    return Segment(directory, name, version, keys, rows, size)


def recover(directory: str, name: str) -> Segment | None:
    """A segment as an earlier writer left it, with the samples that are intact; None, and no file, if there are none.

    Raises ``CacheError``, and changes nothing, if it is of another version.
    """
    try:
        with _both_opened(directory, name, os.O_RDWR) as (version, fds):
            found = _read_end(fds[0])
            if found is not None and found[3]:
                return Segment(directory, name, version, found[1], found[0], _usage(fds))
            if found is None:
                pairs = list(_walk(fds[0], version))
                inline = version != _TFRECORD  # else only the headers are in this file
                end = _HEAD.size + sum(_RECORD.size + row[3] + row[1] * inline for row, _ in pairs)
            else:
                pairs, end = [(row.item(), key) for row, key in zip(found[0], found[1])], found[2]
            intact = [(row, key) for row, key in pairs if _is_intact(fds[1], row, version)]
            return _seal(fds, directory, name, version, end, intact)
    except FileNotFoundError:  # its samples are gone: it was being made or removed
        os.unlink(os.path.join(directory, name))
        return None


def remove_strays(directory: str) -> None:
    """Removes files of samples that no segment belongs to, which a crash can leave."""
    there = set(filter(_OWN.fullmatch, os.listdir(directory)))
    for name in there:
        if name.endswith(_DATA_SUFFIX) and name.removesuffix(_DATA_SUFFIX) + SUFFIX not in there:
            os.unlink(os.path.join(directory, name))


def checksum(version: int, data: Any, before: int = 0) -> int:
    """What ``SegmentWriter.begin`` wants of a sample; *before* is that of what comes before *data* in it."""
    return (tfrecord.crc32c if version == _TFRECORD else zlib.crc32)(data, before)


def sync(directory: str, name: str) -> None:
    """Waits until a sealed segment has reached the disk, and notes that in it. Not an error if it is gone by now."""
    with contextlib.suppress(FileNotFoundError), _both_opened(directory, name, os.O_RDWR) as (_, fds):
        fd = fds[0]
        if (found := _read_end(fd)) is None or found[3]:
            return
        for each in set(fds):
            os.fdatasync(each)
        with opened(directory, os.O_RDONLY) as folder:
            os.fsync(folder)
        write_all(fd, (1).to_bytes(8, "little"), os.fstat(fd).st_size - 8)


def _usage(fds: tuple[int, int]) -> int:
    return sum(disk_usage(os.fstat(fd)) for fd in set(fds))


def _seal(
    fds: tuple[int, int], directory: str, name: str, version: int, end: int, pairs: list[tuple[tuple, str]]
) -> Segment | None:
    if not pairs:
        _unlink(os.path.join(directory, name), version)
        return None
    fd, data = fds
    rows, keys = [row for row, _ in pairs], [key for _, key in pairs]
    if version == _TFRECORD:
        pairs = sorted(pairs, key=lambda pair: pair[0][0])
        rows, keys = _without_gaps(data, [row for row, _ in pairs]), [key for _, key in pairs]
    table = np.array(rows, _ROW)
    index = table.tobytes() + b"".join(map(encoded, keys))
    parts = zlib.crc32(index), end, len(rows)
    trailer = _TRAILER.pack(_TRAILER_MAGIC, parts[0], zlib.crc32(repr(parts).encode()), *parts[1:], 0)
    # In the longer file nobody looks for a trailer here. What is cut off first could be missing on a full disk.
    write_all(fd, index + trailer, end)
    os.ftruncate(fd, end + len(index) + len(trailer))
    return Segment(directory, name, version, tuple(keys), table, _usage(fds))


def _without_gaps(fd: int, rows: list[tuple]) -> list[tuple]:
    """Moves records together where one between them was not written, and ends the file behind the last. After a crash
    in the midst of it the checksums tell what is left."""
    end, moved = 0, []
    for offset, length, *rest in rows:
        begin, size = offset - tfrecord.HEADER, length + _FRAME
        if begin != end:
            for at in range(0, size, 1 << 22):
                write_all(fd, read_bytes(fd, min(1 << 22, size - at), begin + at), end + at)
        moved.append((end + tfrecord.HEADER, length, *rest))
        end += size
    os.ftruncate(fd, end)
    return moved


def _read_end(fd: int) -> tuple[np.ndarray, tuple[str, ...], int, bool] | None:
    """(rows, keys, where the records end, whether all of it was synced); None without a valid trailer."""
    at = os.fstat(fd).st_size - _TRAILER.size
    if at < _HEAD.size:
        return None
    magic, crc, own, begin, count, synced = _TRAILER.unpack(os.pread(fd, _TRAILER.size, at))
    if magic != _TRAILER_MAGIC or own != zlib.crc32(repr((crc, begin, count)).encode()):
        return None
    if not _HEAD.size <= begin <= at or count * _ROW.itemsize > at - begin:
        return None
    index = bytearray(at - begin)
    read_all(fd, memoryview(index), begin)
    if zlib.crc32(index) != crc:
        return None
    rows = np.frombuffer(index, _ROW, count)
    ends = np.cumsum(rows["key"], dtype=np.int64) + count * _ROW.itemsize
    if count and ends[-1] != len(index):
        return None
    begins = ends - rows["key"]
    keys = tuple(_decoded(index[first:last]) for first, last in zip(begins.tolist(), ends.tolist()))
    return rows, keys, begin, synced == 1


def _walk(fd: int, version: int) -> Iterator[tuple[tuple, str]]:
    """(row, key) of each record up to the first whose header is not valid."""
    at, size, data = _HEAD.size, os.fstat(fd).st_size, tfrecord.HEADER
    inline = version != _TFRECORD
    while at + _RECORD.size <= size:
        header = os.pread(fd, _RECORD.size, at)
        magic, check, crc, key_length, length, when = _RECORD.unpack(header)
        if magic != _RECORD_MAGIC or at + _RECORD.size + key_length + length * inline > size:
            return
        key = os.pread(fd, key_length, at + _RECORD.size)
        if zlib.crc32(header[8:] + key) != check:
            return
        at += _RECORD.size + key_length
        yield (at if inline else data, length, crc, key_length, when), _decoded(key)
        at += length * inline
        data += length + _FRAME


def _is_intact(fd: int, row: tuple, version: int, at_once: int = 1 << 22) -> bool:
    offset, length, expected = row[:3]
    if offset + length > os.fstat(fd).st_size:
        return False
    if version == _TFRECORD and not _is_framed(fd, offset, length, expected):
        return False
    crc = 0
    for begin in range(offset, offset + length, at_once):
        part = os.pread(fd, min(at_once, offset + length - begin), begin)
        crc = checksum(version, part, crc)
    return crc == expected


def _is_framed(fd: int, offset: int, length: int, crc: int) -> bool:
    """Whether the lengths and checksums around a record of a TFRecord file are right."""
    before = os.pread(fd, tfrecord.HEADER, offset - tfrecord.HEADER)
    return before == tfrecord.header(length) and os.pread(fd, tfrecord.FOOTER, offset + length) == tfrecord.footer(crc)


def _version_of(fd: int, directory: str) -> int:
    head = os.pread(fd, _HEAD.size, 0)
    if len(head) < _HEAD.size or not any(head):
        return 1  # of a writer that was killed before it could write it: nothing follows
    magic, version = _HEAD.unpack(head)
    if magic != _MAGIC or version not in FORMATS.values():
        what = f"of version {version}" if magic == _MAGIC else "of another program"
        raise CacheError(f"{directory} has segments {what}; this is version 1 or 2. Take another directory")
    return version


@contextlib.contextmanager
def _both_opened(directory: str, name: str, flags: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """The version, and the files of the segment and of its samples, which may be the same."""
    path, flags = os.path.join(directory, name), flags | os.O_NOFOLLOW
    with opened(path, flags) as fd:
        version = _version_of(fd, directory)
        if version != _TFRECORD:
            yield version, (fd, fd)
        else:
            with opened(_data_path(path, version), flags) as data:
                yield version, (fd, data)


def _data_path(path: str, version: int) -> str:
    return path if version != _TFRECORD else path.removesuffix(SUFFIX) + _DATA_SUFFIX


def _unlink(path: str, version: int) -> None:
    for each in dict.fromkeys((_data_path(path, version), path)):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(each)


def _index_part(size: int) -> int:
    """What the segment takes of *size*; the rest is the TFRecord file's."""
    return -(-size // (16 * BLOCK)) * BLOCK


def encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _decoded(key: bytes | bytearray) -> str:
    return key.decode("utf-8", "surrogatepass")


def _needs(key: bytes, length: int) -> int:
    """What a sample takes of a segment: the record, its row, and the key once more."""
    return _RECORD.size + _ROW.itemsize + 2 * len(key) + length
