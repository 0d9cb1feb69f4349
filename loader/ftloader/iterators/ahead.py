"""Finds how many batches to keep under way, for worker threads whose user has given no ``prefetch_factor``.

Worker processes need two batches each, since each builds its own. Threads build a batch together, so two batches hide
the hand-over, whatever the number of threads. More are needed if loading or the loop is uneven:

- The limit grows if the workers have nothing left to do while the consumer waits, or had before, and such waits take
  more than a small share of the time. A slow sample causes them, and a loop that pauses and then hurries.
- It shrinks if batches stood ready at every request of a long row.

Small batches take little memory, and looking at each of them would take long beside it: as many as allowed are kept.

Only ``next()`` asks and answers: at batch boundaries, and once in a long wait. This file knows no threads and no clock.
"""

import math

_LOST = 0.01  # share of the time; waits that more batches would have shortened, and that are worth more memory
_ROW = 64  # requests in a row after which the limit may shrink,
_ROW_SECONDS = 2.0  # ... if they have also taken this long: fast batches are small, and a row of them says little
_LONGEST_ROW = 4096
_SMALL = 16 * 2**20  # bytes that all batches together may take without a look at whether they are needed


class Ahead:
    """Limit of the batches that are dispatched and not handed over. The iterator's lock guards this object.

    ``most``: the largest limit, which is also the limit if *given*; it may be changed. *extra*: batches beyond those
    that the workers build at the same time.
    """

    def __init__(self, most: int, given: bool, extra: int = 1) -> None:
        self.most = most
        self._given = given
        self.extra = extra
        self._small = False  # True if all batches that are allowed take little memory
        self._at_once = 1  # batches that the workers build at the same time
        self._row = _ROW
        self._shrunk = False  # True if the latest change was to shrink
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Start an epoch at *now* (seconds, as all times here)."""
        self._since = now
        self._lost = 0.0  # seconds
        self._credit = 0  # number of coming waits that more batches would have shortened
        self._begin_row(now)

    def _begin_row(self, now: float) -> None:
        self._row_began, self._requests, self._least = now, 0, self.most

    @property
    def limit(self) -> int:
        """The number of batches that may be under way."""
        return min(self.most, self._at_once + self.extra) if self.adapts else self.most

    @property
    def adapts(self) -> bool:
        """True if the limit depends on requests and waits."""
        return not (self._given or self._small)

    @property
    def may_grow(self) -> bool:
        return self.limit < self.most

    def building(self, workers: int, helpers: int) -> None:
        """Note that *helpers* of *workers* workers build each batch."""
        self._at_once = -(-workers // helpers)

    def measured(self, batches: int, nbytes: int) -> None:
        """Note that *batches* batches of the epoch have *nbytes* bytes together."""
        self._small = nbytes * self.most <= _SMALL * batches

    def asked(self, ready: int, idle: bool, now: float) -> None:
        """Note a request at *now*, while *ready* batches wait. *idle*: workers had nothing left to do."""
        if idle:
            self._credit = self.most - self.limit
        self._least = min(self._least, ready)
        self._requests += 1
        if self._requests >= self._row and now - self._row_began > _ROW_SECONDS:
            surplus = min(self._least, self.extra) - 1
            if surplus > 0:
                self.extra -= surplus
                self._shrunk = True
            self._begin_row(now)

    def patience(self, now: float) -> float:
        """Return the seconds after which a wait that begins *now* is worth more batches; infinite if no more may be."""
        if not self.may_grow:
            return math.inf
        return max(0.0, (_LOST * (now - self._since) - self._lost) / (1 - _LOST))

    def waited(self, seconds: float, idle: bool, now: float) -> bool:
        """Note *seconds* of waiting that end *now*. *idle*: workers have nothing left to do. True if more batches may.

        A wait may be noted in parts.
        """
        self._least = 0
        if idle:
            self._credit = self.most - self.limit
        if self._credit <= 0:
            return False
        self._credit -= 1
        self._lost += seconds
        if self._lost <= _LOST * (now - self._since):
            return False
        # After a pause, each wait is one batch that was missing. Workers that are idle now want many at once.
        self.extra = min(self.extra + (self.extra if idle else 1), self.most)
        if self._shrunk:  # too early: look longer next time
            self._row, self._shrunk = min(4 * self._row, _LONGEST_ROW), False
        self._begin_row(now)
        return True
