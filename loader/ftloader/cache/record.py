"""Format of the file that every segment has. ``formats`` has the formats of its samples.

    head | sample | sample | ... | rows | keys | trailer

Each sample has a row: its offset, lengths, checksum and time. The trailer has the offset of the
rows and is written last. A segment with a valid trailer is sealed. A segment is synced if the
trailer's last field says that it has reached the disk (``fdatasync``). After a crash, unsealed
segments are removed, and their samples fetched again.

All numbers are little-endian, checksums are CRC-32 (``zlib.crc32``).

In the format "tfrecord" the samples are in a TFRecord file next to the segment, and their checksums
are CRC-32C. Once the segment is sealed, the TFRecord file holds the samples and nothing else.
"""

import os
import struct
import zlib

import numpy as np

from ftloader.cache.files import read_bytes

HEAD = struct.Struct("<8sI4x")  # magic, version
# magic; checksums of the index, and of these; place and number of rows; 1 if synced
TRAILER = struct.Struct("<8sIIQQQ")
MAGIC, TRAILER_MAGIC = b"ftcache\n", b"ftsealed"
ROW = np.dtype(
    [("offset", "<u8"), ("length", "<u8"), ("crc", "<u4"), ("key", "<u4"), ("time", "<f8")]
)


def head(version: int) -> bytes:
    return HEAD.pack(MAGIC, version)


def end(table: np.ndarray, keys: list[str], start: int) -> bytes:
    """Return the end of a segment file (rows, keys, trailer), to be written at offset *start*."""
    index = table.tobytes() + b"".join(map(encoded, keys))
    parts = zlib.crc32(index), start, len(table)
    return index + TRAILER.pack(
        TRAILER_MAGIC, parts[0], zlib.crc32(repr(parts).encode()), *parts[1:], 0
    )


def read_end(fd: int) -> tuple[np.ndarray, tuple[str, ...], bool] | None:
    """Return a segment's (rows, keys, True if it is synced); None if it has no valid trailer."""
    index_end = os.fstat(fd).st_size - TRAILER.size
    if index_end < HEAD.size:
        return None
    fields = TRAILER.unpack(read_bytes(fd, TRAILER.size, index_end))
    magic, index_crc, trailer_crc, start, count, synced = fields
    is_trailer = magic == TRAILER_MAGIC and trailer_crc == zlib.crc32(
        repr((index_crc, start, count)).encode()
    )
    if not is_trailer or not HEAD.size <= start <= index_end - count * ROW.itemsize:
        return None
    index = read_bytes(fd, index_end - start, start)
    if zlib.crc32(index) != index_crc:
        return None
    rows = np.frombuffer(index, ROW, count)
    ends = np.cumsum(rows["key"], dtype=np.int64) + count * ROW.itemsize
    if count and ends[-1] != len(index):
        return None
    starts = ends - rows["key"]
    try:
        keys = tuple(
            str(index[a:b], "utf-8", "surrogatepass")
            for a, b in zip(starts.tolist(), ends.tolist())
        )
    except UnicodeDecodeError:
        return None
    return rows, keys, synced == 1


def encoded(key: str) -> bytes:
    """Return *key* as UTF-8 bytes. Lone surrogates, which file names may have, are kept."""
    return key.encode("utf-8", "surrogatepass")
