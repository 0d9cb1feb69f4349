"""File format of a segment.

    head | sample | sample | ... | rows | keys | trailer

Each sample has a row: its offset, lengths, checksum and time. The trailer has the offset of the rows and is written
last. A segment with a valid trailer is sealed. A segment is synced if the trailer's last field says that it has reached
the disk (``fdatasync``). After a crash, unsealed segments are removed, and their samples fetched again.

All numbers are little-endian, checksums are CRC-32 (``zlib.crc32``).

With ``FORMATS["tfrecord"]`` the samples are in a TFRecord file next to the segment, and their checksums are CRC-32C.
Once the segment is sealed, the TFRecord file holds the samples and nothing else.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from ftloader.cache import tfrecord
from ftloader.cache.errors import CacheError
from ftloader.cache.files import read_bytes

FORMATS = {"segment": 1, "tfrecord": 2}  # formats of the samples, by name: the version in a segment's head
TFRECORD = FORMATS["tfrecord"]
FRAME = tfrecord.HEADER + tfrecord.FOOTER

HEAD = struct.Struct("<8sI4x")  # magic, version
# magic; checksums of the index, and of these; place and number of rows; 1 if synced
TRAILER = struct.Struct("<8sIIQQQ")
_MAGIC, _TRAILER_MAGIC = b"ftcache\n", b"ftsealed"
ROW = np.dtype([("offset", "<u8"), ("length", "<u8"), ("crc", "<u4"), ("key", "<u4"), ("time", "<f8")])


def head(version: int) -> bytes:
    return HEAD.pack(_MAGIC, version)


def end(table: np.ndarray, keys: list[str], start: int) -> bytes:
    """Return the end of a segment file (rows, keys, trailer), to be written at offset *start*."""
    index = table.tobytes() + b"".join(map(encoded, keys))
    parts = zlib.crc32(index), start, len(table)
    return index + TRAILER.pack(_TRAILER_MAGIC, parts[0], zlib.crc32(repr(parts).encode()), *parts[1:], 0)


def read_end(fd: int) -> tuple[np.ndarray, tuple[str, ...], bool] | None:
    """Return a segment's (rows, keys, True if it is synced); None if it has no valid trailer."""
    at = os.fstat(fd).st_size - TRAILER.size
    if at < HEAD.size:
        return None
    magic, crc, own, start, count, synced = TRAILER.unpack(read_bytes(fd, TRAILER.size, at))
    is_trailer = magic == _TRAILER_MAGIC and own == zlib.crc32(repr((crc, start, count)).encode())
    if not is_trailer or not HEAD.size <= start <= at - count * ROW.itemsize:
        return None
    index = read_bytes(fd, at - start, start)
    if zlib.crc32(index) != crc:
        return None
    rows = np.frombuffer(index, ROW, count)
    ends = np.cumsum(rows["key"], dtype=np.int64) + count * ROW.itemsize
    if count and ends[-1] != len(index):
        return None
    starts = ends - rows["key"]
    try:
        keys = tuple(str(index[a:b], "utf-8", "surrogatepass") for a, b in zip(starts.tolist(), ends.tolist()))
    except UnicodeDecodeError:
        return None
    return rows, keys, synced == 1


def is_right(version: int, fd: int, row: tuple, pieces: Iterable[Any]) -> bool:
    """Return True if *pieces*, a sample's bytes, have the checksum in *row*.

    In a TFRecord file, the header and footer of the sample's record must be right too.
    """
    offset, length, expected, *_ = row
    if version == TFRECORD:
        around = tfrecord.header(length), tfrecord.footer(expected)
        at = offset - tfrecord.HEADER
        if at < 0 or around != (os.pread(fd, tfrecord.HEADER, at), os.pread(fd, tfrecord.FOOTER, offset + length)):
            return False
    crc = 0
    for piece in pieces:
        crc = checksum(version, piece, crc)
    return crc == expected


def version_of(fd: int, name: str) -> int | None:
    """Return the format version in the head of segment *name*; None if a crash left no head, or the head is damaged.
    Raise ``CacheError`` if another program, or an unknown version of this one, wrote the segment."""
    found = os.pread(fd, HEAD.size, 0)
    magic, version = HEAD.unpack(found.ljust(HEAD.size, b"\0"))
    if magic == _MAGIC and version in FORMATS.values():
        return version
    trailer = os.pread(fd, len(_TRAILER_MAGIC), max(0, os.fstat(fd).st_size - TRAILER.size))
    if magic != _MAGIC and (not any(found) or trailer == _TRAILER_MAGIC):
        return None
    what = f"of version {version}" if magic == _MAGIC else "of another program"
    raise CacheError(f"{name} is {what}; this is version 1 or 2. Take another directory, or remove this file")


def checksum(version: int, data: Any, before: int = 0) -> int:
    """Return the checksum of *data* (TFRecord: CRC-32C, else CRC-32), continued from the checksum *before*."""
    return (tfrecord.crc32c if version == TFRECORD else zlib.crc32)(data, before)


def encoded(key: str) -> bytes:
    """Return *key* as UTF-8 bytes. Lone surrogates, which file names may have, are kept."""
    return key.encode("utf-8", "surrogatepass")


def needs(version: int, key: bytes, length: int) -> tuple[int, int]:
    """Return how many bytes a sample of *length* bytes needs, as (in the segment file, in the TFRecord file)."""
    index = ROW.itemsize + len(key)
    return (index, length + FRAME) if version == TFRECORD else (index + length, 0)
