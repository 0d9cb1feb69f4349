"""TFRecord files, as TensorFlow defines them: one record behind the other, nothing else.

    length (uint64) | masked CRC-32C of it (uint32) | data | masked CRC-32C of the data (uint32)

All numbers are little-endian. Both checksums are verified by everything here that reads. CRC-32C is the library
crc32c's, which is imported at the first use.
"""

import functools
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any

from ftloader.cache.errors import CacheError, CorruptSampleError

HEADER, FOOTER = 12, 4
"""Bytes of a record before and behind its data."""


def crc32c(data: Any, before: int = 0) -> int:
    """The CRC-32C of *data*, anything with the buffer protocol, which follows what has the CRC-32C *before*.

    Raises ``CacheError`` without the library.
    """
    return _function()(data, before)


def header(length: int) -> bytes:
    """What comes before *length* bytes of data."""
    packed = struct.pack("<Q", length)
    return packed + _masked(crc32c(packed))


def footer(crc: int) -> bytes:
    """What comes behind data whose CRC-32C is *crc*."""
    return _masked(crc)


def records(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The records of a file, one after the other. Raises ``CorruptSampleError`` at the first that is damaged."""
    with open(path, "rb") as file:
        while head := file.read(HEADER):
            length = struct.unpack("<Q", head[:8])[0] if len(head) == HEADER else 0
            if head != header(length):
                raise CorruptSampleError(f"{path}: the length before byte {file.tell()} is damaged")
            # A length that lies may be larger than the memory: no more is read than there is.
            if length + FOOTER > os.fstat(file.fileno()).st_size - file.tell():
                raise CorruptSampleError(f"{path}: the file ends in the midst of a record")
            data = file.read(length)
            if file.read(FOOTER) != footer(crc32c(data)):
                raise CorruptSampleError(f"{path}: the record before byte {file.tell()} is damaged")
            yield data


def _masked(crc: int) -> bytes:
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@functools.cache
def _function() -> Callable[[Any, int], int]:
    try:
        import crc32c as library
    except ImportError as error:
        raise CacheError(
            "TFRecord needs the package crc32c, which is not installed: pip install 'ftloader[tfrecord]', or "
            "pip install crc32c"
        ) from error
    return library.crc32c
