"""Checksums that show that two candidates gave the same samples: CRC-32 of batches, or of some of their rows.

A loader's batch is a tensor, a dict or list of tensors, or a numpy array if the scenario has a collate_fn for that. The
loop without a loader (BareLoop) builds no batch. It gives Rows, or a list with an array for each sample, whose bytes in
order are those of the loader's tensor.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

# Every 102nd row of measured batches is checked: 4 of 408 rows of an image, about 4 MB of a 400 MB batch, so that the
# check takes well under 1% of the measured time.
CHECKED_ROWS = 102


class Rows(list):
    """The checked rows of a batch's samples."""


class Seen:
    """Consumer of a measurement's batches that notes their checksums. Used by one thread."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.rows: list[int] = []

    def arrive(self, batch: Any) -> Any:
        """Move a batch to the place where it is used. The move may end as late as in `wait`."""
        return batch

    def wait(self) -> None:
        """Wait until all batches have arrived."""

    def take_first(self, batch: Any) -> None:
        """Note every byte of the first batch."""
        self.first = whole(batch)

    def take(self, batch: Any) -> None:
        """Note some rows of the next batch, and every byte if it is the first of all."""
        if self.first is None:
            self.take_first(batch)
        self.rows.append(part(batch))

    def result(self, samples: int, last: int) -> dict:
        """Return a measurement's result without its metrics; `last` is the length of the last batch."""
        return {
            "samples": samples,
            "batches": len(self.rows),
            "last_batch": last,
            "first_batch": self.first,
            "rows": self.rows,
        }


def by_batch(first: int | None, rows: Sequence[int], turns: int) -> dict[str, int]:
    """Return a trial's checksums by a name for each batch. The same batch of every candidate has the same name."""
    found = {} if first is None else {"first": first}
    # A trial with more workers measures more batches a turn, and each turn starts again.
    a_turn = max(1, len(rows) // max(1, turns))
    for number, checksum in enumerate(rows):
        turn, batch = divmod(number, a_turn)
        found[f"measured batch {batch} of turn {turn + 1}"] = checksum
    return found


def rows(sample: Any) -> Any:
    """Return a copy of every CHECKED_ROWS-th row of a sample, a numpy array of at least one dimension."""
    return sample[::CHECKED_ROWS].copy()


def whole(batch: Any) -> int:
    """Return the CRC-32 of every byte of a batch, which may be nested in dicts and lists."""
    return _folded(map(_array, _leaves(batch)))


def part(batch: Any) -> int:
    """Return the CRC-32 of the checked rows of a batch's samples; of all values if samples are numbers."""
    if isinstance(batch, Rows):
        return _folded(batch)
    if _is_of_the_loop(batch):
        return _folded(map(rows, batch))
    arrays = map(_array, _leaves(batch))
    return _folded(each[:, ::CHECKED_ROWS].copy() if getattr(each, "ndim", 0) > 1 else each for each in arrays)


def length(batch: Any) -> int:
    """Return the number of samples of a batch; 0 if the first value of a user's collate_fn has no length."""
    try:
        return len(batch if _is_of_the_loop(batch) else next(_leaves(batch), ()))
    except TypeError:
        return 0


def size(batch: Any) -> int:
    """Return the bytes of a batch's tensors and arrays, and of everything else as text."""
    return sum(memoryview(_array(leaf)).nbytes for leaf in _leaves(batch))


def _is_of_the_loop(batch: Any) -> bool:
    """True if *batch* is a list of arrays, as BareLoop gives for samples. A loader's list has a tensor per field."""
    return isinstance(batch, list) and type(batch[0]).__module__ == "numpy"


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, (Mapping, list, tuple)):
        for value in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _leaves(value)
    else:
        yield batch


def _array(leaf: Any) -> Any:
    """Return a tensor's memory as a contiguous numpy array; an array itself; anything else as text."""
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
