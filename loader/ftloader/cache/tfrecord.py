"""TFRecord files, as TensorFlow defines them: records back to back and nothing else.

    length (uint64) | masked CRC-32C of the length (uint32) | data | masked CRC-32C
    of the data (uint32)

All numbers are little-endian. ``records`` verifies both checksums. The package crc32c, which
computes CRC-32C, is imported at the first use.
"""

import os
import struct
from collections.abc import Iterator
from typing import Any

from ftloader.cache.errors import CacheError, CorruptSampleError

HEADER, FOOTER = 12, 4  # bytes of a record before and after its data
# the package's function once it was used; any thread may set it, always to the same
_crc32c: Any = None


def crc32c(data: Any, before: int = 0) -> int:
    """Return the CRC-32C of *data*, continued from *before*. Raise ``CacheError`` if the package
    crc32c is missing.
    """
    global _crc32c
    if _crc32c is None:
        # an import statement in each call would take longer than the checksum of a small sample
        try:
            import crc32c as library
        except ImportError as error:
            raise CacheError(
                "TFRecord needs the package crc32c, which is not installed: pip install "
                "'ftloader[tfrecord]', or pip install crc32c"
            ) from error
        _crc32c = library.crc32c
    return _crc32c(data, before)


def header(length: int) -> bytes:
    """Return the 12 bytes before a record's data:
    the data's *length* and the checksum of that number.
    """
    packed = struct.pack("<Q", length)
    return packed + footer(crc32c(packed))


def footer(crc: int) -> bytes:
    """Return *crc*, a CRC-32C, as the 4 bytes (masked)
    that follow a record's length or a record's data.
    """
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def records(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the data of each record in a file. Raise ``CorruptSampleError``
    at the first damaged record.
    """
    with open(path, "rb") as file:
        while head := file.read(HEADER):
            length = 0
            if len(head) == HEADER:
                (length,) = struct.unpack("<Q", head[:8])
            if head != header(length):
                raise CorruptSampleError(f"{path}: the length before byte {file.tell()} is damaged")
            # A wrong length may exceed the memory. Do not read more than the file has.
            if length + FOOTER > os.fstat(file.fileno()).st_size - file.tell():
                raise CorruptSampleError(f"{path}: the file ends in the middle of a record")
            data = file.read(length)
            if file.read(FOOTER) != footer(crc32c(data)):
                raise CorruptSampleError(f"{path}: the record before byte {file.tell()} is damaged")
            yield data
