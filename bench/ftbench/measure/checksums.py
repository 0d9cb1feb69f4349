"""Checksums that show that two candidates gave the same samples:
CRC-32 of batches, or of their checked rows.

Checked rows are rows 0, 102, 204, ... of a sample. A loader's batch is a tensor, a dict or list of
tensors, or a numpy array. BareLoop, the candidate without a loader, yields lists. Such a list has
one array for each sample: the whole sample, or, in CheckedRows, its checked rows. Equal samples
have equal checksums in all these forms.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

# Every 102nd row of measured batches is checked: 4 of 408 rows of an image, about 4 MB of a 400 MB
# batch, so that the check takes well under 1% of the measured time.
CHECKED_ROWS = 102


class CheckedRows(list):
    """List that holds the checked rows of a batch:
    one array for each sample (see the function `rows`).
    """


class Seen:
    """Consumer of a measurement's batches that records checksums. Used by one thread."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.rows: list[int] = []

    def arrive(self, batch: Any) -> Any:
        """Return the batch that training would read: here the loader's batch itself, in OnGpu its
        copy on the GPU.
        """
        return batch

    def wait(self) -> None:
        """Wait until all copies that `arrive` started are complete."""

    def take_first(self, batch: Any) -> None:
        """Record the checksum of the first batch, over all its bytes."""
        self.first = whole(batch)

    def take(self, batch: Any) -> None:
        """Record the checksum of a batch's checked rows. If `take_first` was never called, call it
        for this batch.
        """
        if self.first is None:
            self.take_first(batch)
        self.rows.append(part(batch))

    def result(self, samples: int, last: int) -> dict:
        """Return the counts and checksums for a trial's result. `last` is the number of samples in
        the last batch.
        """
        return {
            "samples": samples,
            "batches": len(self.rows),
            "last_batch": last,
            "first_batch": self.first,
            "rows": self.rows,
        }


def by_batch(first: int | None, rows: Sequence[int], turns: int) -> dict[str, int]:
    """Return {batch name: checksum} for the batches of a trial.

    *first* is the checksum of the whole first batch. *rows* are the checksums of the batches of all
    *turns* turns. Batches of the same name should be equal in every candidate's trial.
    """
    sums = {}
    if first is not None:
        sums["first"] = first
    # A trial with more workers measures more batches a turn,
    # and each turn starts again with the same samples.
    a_turn = max(1, len(rows) // max(1, turns))
    for number, checksum in enumerate(rows):
        turn, batch = divmod(number, a_turn)
        sums[f"measured batch {batch} of turn {turn + 1}"] = checksum
    return sums


def rows(sample: Any) -> Any:
    """Return a copy of every CHECKED_ROWS-th row of a sample (a numpy array
    of at least one dimension).
    """
    return sample[::CHECKED_ROWS].copy()


def whole(batch: Any) -> int:
    """Return the CRC-32 of every byte of a batch, which may consist of nested dicts and lists."""
    return _folded(map(_array, _leaves(batch)))


def part(batch: Any) -> int:
    """Return the CRC-32 of a batch's checked rows. Fields without rows,
    such as labels, are checked whole.
    """
    if isinstance(batch, CheckedRows):
        return _folded(batch)
    if _is_of_the_loop(batch):
        return _folded(map(rows, batch))
    return _folded(map(_checked_rows, map(_array, _leaves(batch))))


def _checked_rows(field: Any) -> Any:
    """Return the checked rows of a field; all of a field without rows."""
    if getattr(field, "ndim", 0) > 1:
        return field[:, ::CHECKED_ROWS].copy()
    return field


def length(batch: Any) -> int:
    """Return the number of samples in a batch: the length of its first field, or 0 if that field
    has no length.
    """
    try:
        return len(batch if _is_of_the_loop(batch) else next(_leaves(batch), ()))
    except TypeError:
        return 0


def size(batch: Any) -> int:
    """Return the size of a batch in bytes. A value other than a tensor
    or array has the size of its repr().
    """
    return sum(memoryview(_array(leaf)).nbytes for leaf in _leaves(batch))


def _is_of_the_loop(batch: Any) -> bool:
    """True if *batch* is from BareLoop: a list with one array per sample. A loader's list has one
    tensor per field.
    """
    return isinstance(batch, list) and type(batch[0]).__module__ == "numpy"


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, Mapping):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _leaves(value)
    else:
        yield batch


def _array(leaf: Any) -> Any:
    """Return a tensor or an array as a contiguous numpy array;
    return the bytes of repr() of any other value.
    """
    if hasattr(leaf, "numpy"):
        leaf = leaf.detach().cpu().contiguous()
        try:
            return leaf.numpy()
        except TypeError:  # numpy lacks the type (bfloat16)
            import torch

            return leaf.view(-1).view(torch.uint8).numpy()
    if hasattr(leaf, "__array_interface__"):
        import numpy

        return numpy.ascontiguousarray(leaf)
    return repr(leaf).encode()


def _folded(arrays: Iterable[Any]) -> int:
    return functools.reduce(lambda checksum, array: zlib.crc32(array, checksum), arrays, 0)
