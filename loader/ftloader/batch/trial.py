"""Slots or torch's ``default_collate``: which is cheaper for a loader's samples, by measurement.

Copying samples into slots one by one keeps their memory warm and spares the batch's page faults. Stacking them all at
once spares the work for each value. Which is worth more depends on the machine, the dataset and the interpreter. So the
first batches are built in slots, the next ones stacked, and the CPU time of all threads is compared, loading included,
because a sample that is kept until the batch is complete makes the next one's memory a fresh one.

A way is tried for a while, and its cheapest batch of the last ones counts: malloc takes the memory of stacked batches
from several arenas, and the first batches of each fault in theirs, which can cost ten times as much as the copying.
"""

from collections import deque

from ftloader import fork

CERTAIN = 256 << 10
"""Mean bytes of the values in slots, from which on slots are taken without a trial."""
_COUNTED = 8  # batches of either kind, the last ones
_LONG_ENOUGH = 0.1  # CPU seconds, for batches of either kind
_MARGIN = 0.95  # slots hold one copy of the samples, not two, so they are left for a clear gain only
_OTHER_SIZE = 4  # times larger or smaller: what was measured says nothing about it


class Trial:
    """The choice for one ``DataLoader``, over its epochs. ``_lock`` guards all attributes.

    Args:
        warm_up: how many batches of either kind are not counted; the first ones fault in their memory.
    """

    def __init__(self, warm_up: int) -> None:
        self._lock = fork.lock()
        self._least = warm_up + _COUNTED
        self._begin(0)

    def _begin(self, nbytes: int) -> None:
        self._nbytes = nbytes
        self._costs: dict[bool, deque[float]] = {way: deque(maxlen=_COUNTED) for way in (True, False)}
        self._built, self._seconds = {True: 0, False: 0}, {True: 0.0, False: 0.0}
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
            return not self._tried(True), True

    def _tried(self, slots: bool) -> bool:
        return self._built[slots] >= self._least and self._seconds[slots] >= _LONG_ENOUGH

    def add(self, slots: bool, seconds: float, nbytes: int) -> None:
        """The CPU *seconds* for one batch of so many *nbytes* that was to have *slots* or not."""
        with self._lock:
            self._built[slots] += 1
            self._seconds[slots] += seconds
            self._costs[slots].append(seconds / nbytes)
            if self._choice is None and self._tried(True) and self._tried(False):
                stacked, copied = (min(self._costs[way]) for way in (False, True))
                self._choice = not stacked < _MARGIN * copied
