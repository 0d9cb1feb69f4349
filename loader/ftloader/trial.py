"""Slots or torch's ``default_collate``: which is cheaper for a loader's samples, by measurement.

Copying samples into slots one by one keeps their memory warm and spares the batch's page faults. Stacking them all at
once spares the work for each value. Which is worth more depends on the machine, the dataset and the interpreter. So the
first batches are built both ways in turn, and the CPU time of all threads is compared, loading included, because a
sample that is kept until the batch is complete makes the next one's memory a fresh one.
"""

import statistics
from collections import deque

from ftloader import fork_locks

CERTAIN = 128 << 10
"""Mean bytes of the values in slots, from which on slots are taken without a trial."""
_COUNTED = 5  # batches of either kind
_MARGIN = 0.95  # slots hold one copy of the samples, not two, so they are left for a clear gain only
_OTHER_SIZE = 4  # times larger or smaller: what was measured says nothing about it


class Trial:
    """The choice for one ``DataLoader``, over its epochs. ``_lock`` guards all attributes.

    Args:
        warm_up: how many batches of either kind are not counted; the first ones in slots fault in their memory.
    """

    def __init__(self, warm_up: int) -> None:
        self._lock = fork_locks.lock()
        self._warm_up = warm_up
        self._begin(0)

    def _begin(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._started = 0
        self._left = dict.fromkeys((True, False), self._warm_up)
        self._costs: dict[bool, deque[float]] = {way: deque(maxlen=_COUNTED) for way in (True, False)}
        self._choice: bool | None = None

    def choose(self, nbytes: int, values: int) -> tuple[bool, bool]:
        """Whether the next batch is to have slots, for so many *values* of a sample with so many *nbytes* in all, and
        whether its cost is to be measured."""
        if nbytes >= CERTAIN * values:
            return True, False
        with self._lock:
            if not self._nbytes / _OTHER_SIZE <= nbytes <= self._nbytes * _OTHER_SIZE:
                self._begin(nbytes)
            if self._choice is not None:
                return self._choice, False
            self._started += 1
            return self._started % 2 == 1, True

    def add(self, slots: bool, seconds: float) -> None:
        """The CPU *seconds* for a sample of one batch that was to have *slots* or not."""
        with self._lock:
            if self._left[slots] > 0:
                self._left[slots] -= 1
                return
            self._costs[slots].append(seconds)
            if self._choice is None and all(len(costs) == _COUNTED for costs in self._costs.values()):
                stacked, copied = (statistics.median(self._costs[way]) for way in (False, True))
                self._choice = not stacked < _MARGIN * copied  # also where the clock is too coarse for either
