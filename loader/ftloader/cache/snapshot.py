"""The samples of an epoch: the first *length* samples of a list of segments."""

import bisect
import itertools
import os
from typing import Any

import numpy as np

from ftloader.cache import segment
from ftloader.cache.segment import Segment


class Snapshot:
    """List of the samples of *epoch*. Immutable, so threads may share it. Unpickling opens the segments' files."""

    def __init__(self, epoch: int, segments: list[Segment], length: int | None = None) -> None:
        self.epoch, self.segments = epoch, tuple(segments)
        self._ends = list(itertools.accumulate(map(len, segments)))
        there = self._ends[-1] if self._ends else 0
        self._length = there if length is None else min(length, there)

    def __len__(self) -> int:
        return self._length

    def find(self, index: Any) -> tuple[Segment, int]:
        """Return (segment, row in that segment) of sample *index*. Raise ``IndexError`` if there is no such sample."""
        number = index.__index__()
        if not -self._length <= number < self._length:
            raise IndexError(f"sample {number} of {self._length}")
        number %= self._length
        which = bisect.bisect_right(self._ends, number)
        one = self.segments[which]
        return one, number - self._ends[which] + len(one)

    def times(self) -> np.ndarray:
        """Return the time at which each sample was written, in seconds since 1970."""
        parts = [one.times for one in self.segments]
        return np.concatenate(parts)[: self._length] if parts else np.empty(0)

    def state(self) -> dict[str, Any]:
        """Return the snapshot as a dict that JSON can hold, for ``of_state``."""
        return {"epoch": self.epoch, "segments": [one.name for one in self.segments], "length": self._length}

    @property
    def names(self) -> frozenset[str]:
        """Names of the segments."""
        return frozenset(one.name for one in self.segments)


def of_state(state: dict[str, Any], directory: str) -> Snapshot:
    """Return the snapshot whose ``state()`` is *state*. Raise ``CacheError`` if one of its segments is missing."""
    segments = [segment.load(directory, os.path.basename(name)) for name in state["segments"]]
    return Snapshot(state["epoch"], segments, state["length"])
