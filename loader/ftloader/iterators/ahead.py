"""Decides how many batches worker threads build ahead of the training loop, if no
``prefetch_factor`` is given.

Worker processes need two batches each, since each builds its own. Threads build a batch together,
so two batches in all hide the hand-over, whatever the number of threads. More are needed if loading
or the training loop is uneven:

- The limit grows if the consumer waits while workers have nothing left to do, or soon after that,
  and such waits take over 1% of the time since the limit last changed, or since the epoch began.
  They come from slow samples, and from a loop that pauses and then hurries.
- The limit shrinks if batches were ready at each of many requests in a row.

For small batches, which take little memory, adapting the limit would cost too much time: it stays
at its maximum, and above that if the number of workers is the loader's choice. Otherwise more
workers would be faster for that alone.

Only ``next()`` records requests and waits: between batches, and once in a long wait. No code here
reads a clock.
"""

import math

from ftloader.batch.in_use import WorkersInUse

# share of the time; waits that more batches would have shortened, and that are worth more memory
_LOST = 0.01
_ROW = 64  # requests in a row after which the limit may shrink,
# ... if they have also taken this long: fast batches are small, and a row of them says little
_ROW_SECONDS = 2.0
_LONGEST_ROW = 4096
# small batches to have ahead where the loader chooses the number of workers:
# the loop then seldom sleeps
MANY = 16
# bytes that all batches together may take without a look at whether they are needed
_SMALL = 16 * 2**20


class Ahead:
    """Limit on the number of batches dispatched and not yet handed over.
    The iterator's lock guards this object.

    ``most``: the largest limit, *factor* batches for each of the *workers* in use. *given*: True if
    the user chose *factor*; the limit then always equals ``most``. *extra*: number of batches that
    the limit allows in addition to those being built. *many*: the limit for small batches if that
    is larger than ``most``.
    """

    def __init__(
        self, workers: WorkersInUse, factor: int, given: bool, extra: int = 1, many: int = 0
    ) -> None:
        self._workers, self._factor = workers, factor
        self._given = given
        self.extra = extra
        self._many = many
        self._small = 0  # the limit if as many batches take little memory, else 0
        self._helpers = workers.number  # of each batch: workers that build it together
        self._row = _ROW
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Start an epoch at the time *now*, in seconds (as are all times here)."""
        self._since = now
        self._lost = 0.0  # seconds
        self._credit = 0  # number of coming waits that more batches would have shortened
        # ``extra`` before the latest change if that was to shrink, in this row or the one before
        self._before = 0
        self._begin_row(now)
        self._requests = -1  # nothing can be ready for the first one, which does not count

    def _begin_row(self, now: float) -> None:
        self._row_began, self._requests, self._least = now, 0, self.most

    @property
    def most(self) -> int:
        return self._factor * self._workers.number

    @property
    def limit(self) -> int:
        """The number of batches that may be dispatched and not yet handed over."""
        if not self.adapts:
            return self._small or self.most
        built_at_once = -(-self._workers.number // self._helpers)
        return min(self.most, built_at_once + self.extra)

    @property
    def largest(self) -> int:
        """The largest limit for batches of any size."""
        return max(self.most, self._many)

    @property
    def adapts(self) -> bool:
        """True if requests and waits can change the limit."""
        return not (self._given or self._small)

    @property
    def may_grow(self) -> bool:
        return self.limit < self.most

    @property
    def _missing(self) -> int:
        """Number of the next waits that a higher limit would have shortened. The first is for a
        batch being built.
        """
        return self.most - self.limit + 1

    def building(self, helpers: int) -> None:
        """Record that *helpers* workers build each batch together."""
        self._helpers = helpers

    def measured(self, batches: int, nbytes: int) -> None:
        """Record that *batches* batches of the epoch have *nbytes* bytes in total."""
        fit = _SMALL * batches // max(1, nbytes)
        if self._given or fit < self.most:
            self._small = 0
        else:
            self._small = max(self.most, min(self._many, fit))

    def asked(self, ready: int, idle: bool, now: float) -> None:
        """Record that the consumer asks for a batch at the time *now*,
        when *ready* batches are built.

        *idle*: True if workers have nothing left to do.
        """
        if idle:
            self._credit = self._missing
        if self._requests >= 0:
            self._least = min(self._least, ready)
        self._requests += 1
        if self._requests >= self._row and now - self._row_began > _ROW_SECONDS:
            surplus = min(self._least, self.extra) - 1
            self._before = 0
            if surplus > 0:
                self._before, self.extra = self.extra, self.extra - surplus
                # so that it soon grows again if this was too early
                self._since, self._lost = now, 0.0
            self._begin_row(now)

    def patience(self, now: float) -> float:
        """Return how many seconds a wait from *now* on may last before it raises ``limit``;
        infinity if no wait can.
        """
        if not self.may_grow:
            return math.inf
        return max(0.0, (_LOST * (now - self._since) - self._lost) / (1 - _LOST))

    def waited(self, seconds: float, idle: bool, now: float) -> bool:
        """Record that the consumer has waited *seconds* until *now*.
        Return True if this has raised ``limit``.

        *idle*: True if workers have nothing left to do. One wait may be recorded in several parts.
        """
        if self._requests:
            self._least = 0
        if idle:
            self._credit = self._missing
        if self._credit <= 0 or not self.may_grow:
            return False
        self._credit -= 1
        self._lost += seconds
        if self._lost <= _LOST * (now - self._since):
            return False
        # Workers that are idle now want many at once. Otherwise the step is a quarter: in single
        # steps, a large limit would stop growing early, since what is still lost falls below _LOST.
        step = self.extra
        if not idle:
            step = max(1, self.extra // 4)
        self.extra = min(max(self.extra + step, self._before), self.most)
        if self._before:  # too early: look longer next time
            self._row, self._before = min(4 * self._row, _LONGEST_ROW), 0
        # else short waits after one long one would raise the limit again and again
        self._since, self._lost = now, 0.0
        self._begin_row(now)
        return True
