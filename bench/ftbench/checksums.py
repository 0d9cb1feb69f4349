"""What shows that two contestants gave the same samples: CRC-32 of batches, or of some of their rows.

A loader gives a batch as a tensor, or with a collate_fn of the scenario's as a numpy array. The loop
without a loader builds none: it gives a list of arrays, one for each sample, whole or reduced by `rows`
already, whose bytes in order are those of the tensor.
"""

from __future__ import annotations

import zlib
from typing import Any

# Distance of the rows at which measured batches are checked: 4 of 408 rows of every image, about
# 4 MB of a 400 MB batch, so that the check takes well under 1% of the time measured.
CHECKED_ROWS = 102


def rows(sample: Any) -> Any:
    """A copy of every CHECKED_ROWS-th row of one sample, a numpy array of at least one dimension."""
    return sample[::CHECKED_ROWS].copy()


def whole(batch: Any) -> int:
    """CRC-32 of every byte of a batch."""
    if isinstance(batch, list):
        return _of_list(batch)
    return zlib.crc32(_array(batch))


def part(batch: Any) -> int:
    """CRC-32 of the rows of a batch's samples that are checked, of all values if samples are numbers."""
    if isinstance(batch, list):
        return _of_list(batch)
    if batch.ndim > 1:
        return zlib.crc32(_array(batch)[:, ::CHECKED_ROWS].copy())
    return zlib.crc32(_array(batch))


def _array(batch: Any) -> Any:
    """A tensor's memory as a numpy array; an array itself."""
    return batch.numpy() if hasattr(batch, "numpy") else batch


def _of_list(samples: list) -> int:
    checksum = 0
    for sample in samples:
        checksum = zlib.crc32(sample, checksum)
    return checksum
