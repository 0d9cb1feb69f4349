"""Formats of the samples of a segment: in the segment's own file, or in a TFRecord file next to it.

``record`` describes the file that every segment has. A row is (offset, length, checksum, length of
the key, time).
"""

import os
import zlib
from collections.abc import Iterable
from typing import Any, Protocol

from ftloader.cache import tfrecord
from ftloader.cache.errors import CacheError
from ftloader.cache.files import BLOCK, read_bytes, write_all
from ftloader.cache.record import HEAD, MAGIC, ROW, TRAILER, TRAILER_MAGIC

SUFFIX, TFRECORD_SUFFIX = ".segment", ".tfrecord"
_MOVED_AT_ONCE = 1 << 22


class Format(Protocol):
    """Protocol of a format. An object has no state. Sizes and offsets are in bytes, *size* is that
    of a whole segment.

    Attributes:
        version: number in the segment's head.
        start: offset of the first record in the file of the samples.
        before: size of a record's part before the sample.
    """

    version: int
    start: int
    before: int

    def checksum(self, data: Any, before: int = 0, /) -> int:
        """Return the checksum of *data*, continued from the checksum *before*. Raise ``CacheError``
        if it cannot.
        """
        ...

    def data_path(self, path: str) -> str:
        """Return the path of the file with the samples of the segment *path*."""
        ...

    def record_size(self, length: int) -> int:
        """Return the size of the record of a sample of *length* bytes."""
        ...

    def size_for(self, key: bytes, length: int) -> int:
        """Return a segment size that has room for one sample of *length* bytes."""
        ...

    def own_size(self, size: int) -> int:
        """Return the size of the segment's own file. A TFRecord file gets the rest."""
        ...

    def fits(self, size: int, index: int, end: int) -> bool:
        """Return True if rows, keys and trailer of *index* bytes fit,
        and records up to the offset *end*.
        """
        ...

    def index_start(self, end: int) -> int:
        """Return the offset of the rows in the segment's own file.
        *end* is that of the last record's end.
        """
        ...

    def write(self, fd: int, row: tuple, data: Any) -> None:
        """Write the record of the sample *data*, whose row is *row*."""
        ...

    def without_gaps(self, fd: int, rows: list[tuple]) -> list[tuple]:
        """Remove from a file what its readers would take for a record, and is not in *rows*. Return
        the new rows.
        """
        ...

    def is_right(self, fd: int, row: tuple, pieces: Iterable[Any]) -> bool:
        """Return True if *pieces*, a sample's bytes, have the checksum in *row*, and what is around
        them is right.
        """
        ...


class SegmentFormat:
    """Format in which a segment has one file, with its samples back to back.
    Checksums are CRC-32.
    """

    version, start, before = 1, HEAD.size, 0
    checksum = staticmethod(zlib.crc32)

    def data_path(self, path: str) -> str:
        return path

    def record_size(self, length: int) -> int:
        return length

    def size_for(self, key: bytes, length: int) -> int:
        return HEAD.size + TRAILER.size + ROW.itemsize + len(key) + length

    def own_size(self, size: int) -> int:
        return size

    def fits(self, size: int, index: int, end: int) -> bool:
        return end + index <= size

    def index_start(self, end: int) -> int:
        return end

    def write(self, fd: int, row: tuple, data: Any) -> None:
        write_all(fd, data, row[0])

    def without_gaps(self, fd: int, rows: list[tuple]) -> list[tuple]:
        return rows

    def is_right(self, fd: int, row: tuple, pieces: Iterable[Any]) -> bool:
        crc = 0
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
        return crc == row[2]


class TFRecordFormat:
    """Format in which the samples are the records of a TFRecord file. Checksums are CRC-32C."""

    version, start, before = 2, 0, tfrecord.HEADER

    def checksum(self, data: Any, before: int = 0, /) -> int:
        return tfrecord.crc32c(data, before)

    def data_path(self, path: str) -> str:
        return path.removesuffix(SUFFIX) + TFRECORD_SUFFIX

    def record_size(self, length: int) -> int:
        return tfrecord.HEADER + length + tfrecord.FOOTER

    def size_for(self, key: bytes, length: int) -> int:
        own_blocks = -(-(HEAD.size + TRAILER.size + ROW.itemsize + len(key)) // BLOCK)
        # One sixteenth is for the segment's own file, see own_size.
        return max(16 * BLOCK * own_blocks, -(-(self.record_size(length) + BLOCK) * 16 // 15))

    def own_size(self, size: int) -> int:
        return -(-size // (16 * BLOCK)) * BLOCK

    def fits(self, size: int, index: int, end: int) -> bool:
        own_size = self.own_size(size)
        return HEAD.size + index <= own_size and end <= size - own_size

    def index_start(self, end: int) -> int:
        return HEAD.size

    def write(self, fd: int, row: tuple, data: Any) -> None:
        offset, length, crc = row[:3]
        write_all(fd, data, offset)
        write_all(fd, tfrecord.header(length), offset - tfrecord.HEADER)
        write_all(fd, tfrecord.footer(crc), offset + length)

    def without_gaps(self, fd: int, rows: list[tuple]) -> list[tuple]:
        """See ``Format``. Moves the records of *rows*,
        which are sorted, to the start of the file.
        """
        end, moved = 0, []
        for offset, length, *fields in rows:
            start, size = offset - tfrecord.HEADER, self.record_size(length)
            if start != end:
                for at in range(0, size, _MOVED_AT_ONCE):
                    write_all(
                        fd, read_bytes(fd, min(_MOVED_AT_ONCE, size - at), start + at), end + at
                    )
            moved.append((end + tfrecord.HEADER, length, *fields))
            end += size
        os.ftruncate(fd, end)
        return moved

    def is_right(self, fd: int, row: tuple, pieces: Iterable[Any]) -> bool:
        offset, length, expected, *_ = row
        start = offset - tfrecord.HEADER
        if start < 0 or os.pread(fd, tfrecord.HEADER, start) != tfrecord.header(length):
            return False
        if os.pread(fd, tfrecord.FOOTER, offset + length) != tfrecord.footer(expected):
            return False
        crc = 0
        for piece in pieces:
            crc = tfrecord.crc32c(piece, crc)
        return crc == expected


TFRECORD = TFRecordFormat()
FORMATS: dict[str, Format] = {"segment": SegmentFormat(), "tfrecord": TFRECORD}
_BY_VERSION = {format.version: format for format in FORMATS.values()}


def format_of(fd: int, name: str) -> Format | None:
    """Return the format that the head of segment *name* tells; None if a crash left no head, or the
    head is damaged. Raise ``CacheError`` if another program, or an unknown version of this one,
    wrote the segment."""
    head = os.pread(fd, HEAD.size, 0)
    magic, version = HEAD.unpack(head.ljust(HEAD.size, b"\0"))
    if magic == MAGIC and version in _BY_VERSION:
        return _BY_VERSION[version]
    trailer = os.pread(fd, len(TRAILER_MAGIC), max(0, os.fstat(fd).st_size - TRAILER.size))
    if magic != MAGIC and (not any(head) or trailer == TRAILER_MAGIC):
        return None
    writer = "of another program"
    if magic == MAGIC:
        writer = f"of version {version}"
    raise CacheError(
        f"{name} is {writer}; this is version 1 or 2. Take another directory, or remove this file"
    )
