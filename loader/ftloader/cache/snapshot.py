"""The samples of an epoch: whole segments, of which the first *length* samples are used."""

import bisect
import itertools
import os
from typing import Any

import numpy as np

from ftloader.cache import segment
from ftloader.cache.segment import Segment


class Snapshot:
    """The samples of *epoch*. Immutable, so threads share it. A process that unpickles one opens the files itself."""

    def __init__(self, epoch: int, segments: list[Segment], length: int | None = None) -> None:
        self.epoch, self.segments = epoch, tuple(segments)
        self._ends = list(itertools.accumulate(map(len, segments)))
        there = self._ends[-1] if self._ends else 0
        self._length = there if length is None else min(length, there)

    def __len__(self) -> int:
        return self._length

    def find(self, index: Any) -> tuple[Segment, int]:
        """Return the segment of sample *index*, and its row there."""
        number = index.__index__()
        if not -self._length <= number < self._length:
            raise IndexError(f"sample {number} of {self._length}")
        number %= self._length
        which = bisect.bisect_right(self._ends, number)
        one = self.segments[which]
        return one, number - self._ends[which] + len(one)

    def times(self) -> np.ndarray:
        """Return when each sample was written, in seconds since 1970."""
        parts = [one.times for one in self.segments]
        return np.concatenate(parts)[: self._length] if parts else np.empty(0)

    def state(self) -> dict[str, Any]:
        """Return the snapshot as a dict for JSON; ``of_state`` reads it."""
        return {"epoch": self.epoch, "segments": [one.name for one in self.segments], "length": self._length}

    @property
    def names(self) -> frozenset[str]:
        """Names of the segments."""
        return frozenset(one.name for one in self.segments)


def of_state(state: dict[str, Any], directory: str) -> Snapshot:
    """Return the snapshot of *state*. Raise ``CacheError`` if one of its segments is missing."""
    segments = [segment.load(directory, os.path.basename(name)) for name in state["segments"]]
    return Snapshot(state["epoch"], segments, state["length"])
