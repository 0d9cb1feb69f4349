"""Finds how many worker threads to use, for ``num_workers="auto"``.
This file uses no threads and no clock.

At a batch boundary the tuner judges the time since its latest decision (a window):

- The training loop does not wait, or workers are not busy: the number of busy workers plus a
  quarter is enough.
- The loop waits for busy workers that leave CPUs free: more workers may help. If loading mostly
  waits, four times as many are tried at once, else twice as many.
- The loop waits, and more workers did not help, or all CPUs are in use: fewer may be as good (a
  lock, the GIL).

Each change is a trial: its rate (samples a second) decides if the new number stays. ``_floor`` and
``_ceiling`` enclose the numbers still worth a trial. When none is left, the tuner has settled. It
starts to search again once the load has been different for several windows: the rate, the loop's
waiting or the share of computing. If the new search ends at the same number, the next one needs a
change of load that lasts for more windows.
"""

import math
from dataclasses import astuple, dataclass

_WINDOW = 0.3  # seconds of a window, with four batches or more
# seconds after a change that are not judged; nor are the batches that are under way then
_SETTLES = 0.05
_LONG_WINDOW = 1.0  # seconds of a window with one batch, and of any window once settled
_AMBIGUOUS = 3  # windows after which a trial is judged, even if its result is close
_WAITS = 0.05  # share of the time; a loop that waits less has its data in time
_BUSY = 0.7  # share of the time; workers that are less busy are not what limits
_CPUS_FULL = 0.85  # share of the CPUs; with more in use, more threads do not help
# share of the busy time; loading that computes less than this may use more threads anyway
_MOSTLY_WAITS = 0.3
_SPARE = 1.25  # workers for each one that is busy, if the loop does not wait
_CLOSE = 1.5  # ratio of two numbers of workers between which no trial is worthwhile
_GAIN = 1.08  # ratio of rates from which a larger number of workers is better,
_NO_GAIN = 1.03  # ... below which it is no better at all,
_CLEAR_GAIN = 1.2  # ... and clearly so
_LOSS = 0.95  # ratio of rates below which a smaller number is worse,
_CLEAR_LOSS = 0.85  # ... and clearly so
_CHANGED = 1.25  # ratio of rates that shows another load, if it lasts
# difference of the shares of computing in loading that shows another load, if it lasts
_OTHER_KIND = 0.3
_CHANGED_MUCH = 2.0  # ... at once
_PATIENCE, _MOST_PATIENCE = 3, 48  # windows for which a change must last


@dataclass(frozen=True, slots=True)
class Totals:
    """Running totals of an iterator at the time ``now``. All times are in seconds."""

    now: float
    waited: float  # by the consumer
    batches: int
    samples: int  # loaded
    busy: float  # of all workers
    cpu: float  # of all workers, and waiting for a CPU
    dispatched: int = 0  # batches that the workers have been given

    def since(self, start: "Totals") -> "Totals":
        """Return the differences to the earlier totals *start*."""
        return Totals(*(end - begin for end, begin in zip(astuple(self), astuple(start))))


NOTHING_YET = Totals(0.0, 0.0, 0, 0, 0.0, 0.0)


class WorkerTuner:
    """Chooser of the number of workers to use: ``number``, from 1 to *most*. The iterator's lock
    guards this object.
    """

    def __init__(self, first: int, most: int, cpus: int) -> None:
        self.limits = most, cpus
        self.number, self.most, self.cpus = min(first, most), most, cpus
        self._settled_rate: float | None = None  # None while it still looks
        self._tried_from: int | None = None  # the number before the trial that is under way
        self._settled_waits = False
        self._settled_computing = 0.0  # share of loading
        self._settled_number = 0
        self._patience = _PATIENCE
        self._explore()
        self.begin(NOTHING_YET)

    def begin(self, totals: Totals) -> None:
        """Start an epoch now, when the totals are *totals*.
        A trial from the epoch before goes on.
        """
        has_reference = self._settled_rate is not None or self._tried_from is not None
        self._open(totals, settling=has_reference)  # an epoch's first batch says little

    def _open(self, totals: Totals, settling: bool = False) -> None:
        self._start = totals
        # True until the batches that were under way at the change are handed over
        self._settling = settling
        if settling:
            seconds = _SETTLES
        elif self._settled_rate is None:
            seconds = _WINDOW
        else:
            seconds = _LONG_WINDOW
        self.due = totals.now + seconds

    def _explore(self) -> None:
        self._floor, self._ceiling = 1, self.most + 1
        self._tried_from = None
        self._rate = 0.0  # of that number
        self._windows = 0  # that the trial has lasted
        self._taken_back = False  # True if the latest trial was
        # number, rate and earlier floor of a trial taken back
        self._doubted: tuple[int, float, int] | None = None
        self._changed = 0  # windows in a row in which the load seemed another one
        self._settled_rate = None

    def cannot_exceed(self, number: int) -> None:
        """Record that no more than *number* workers can be started, and use that many."""
        self.number = self.most = number
        self._ceiling, self._tried_from = number + 1, None

    def look(self, totals: Totals) -> int:
        """Return the number of workers to use from now on. Call this between batches, not before
        the time ``due``.
        """
        window, before = totals.since(self._start), self.number
        if self._settling:
            if (
                window.batches
                and window.now > _SETTLES
                and totals.batches >= self._start.dispatched
            ):
                self._open(totals)
            return self.number
        if not self._can_judge(window):
            return self.number
        rate, waited = max(1, window.samples) / window.now, window.waited / window.now
        if self._settled_rate is not None:
            self._watch(rate, waited, window)
        elif self._tried_from is None:
            if not self._reconsider(rate):
                self._decide(rate, waited > _WAITS, window)
        elif not self._judge(rate, waited > _WAITS):
            self.due = totals.now + _WINDOW  # the window goes on
            return self.number
        elif not self._taken_back:
            self._decide(rate, waited > _WAITS, window)
        self._open(totals, settling=self.number != before)
        return self.number

    def _can_judge(self, window: Totals) -> bool:
        """Return True if *window* is long enough for a decision."""
        if window.now >= _LONG_WINDOW:
            return window.batches > 0
        return window.batches >= 4 and self._doubted is None

    def _watch(self, rate: float, waited: float, window: Totals) -> None:
        """Start the search again if the load has clearly changed since the tuner settled on a
        number of workers.
        """
        assert self._settled_rate is not None
        change = max(rate / self._settled_rate, self._settled_rate / rate)
        if self._settled_waits:
            other_loop = waited < _WAITS / 2
        else:
            other_loop = waited > 3 * _WAITS
        other_kind = abs(window.cpu / (window.busy or 1.0) - self._settled_computing) > _OTHER_KIND
        if change > _CHANGED or other_loop or other_kind:
            self._changed += 1
        else:
            self._changed = 0
        if self._changed >= self._patience or change > _CHANGED_MUCH:
            self._settled_number = self.number
            self._explore()

    def _judge(self, rate: float, waits: bool) -> bool:
        """End the trial: keep its number of workers, or return to the one before. Return False if
        it is too early.
        """
        assert self._tried_from is not None
        before, now, ratio = self._tried_from, self.number, rate / self._rate
        self._windows += 1
        if now > before:
            low, least, high = 1.0, _GAIN, _CLEAR_GAIN
        else:
            low, least, high = _CLEAR_LOSS, _LOSS, 1.0
        if low < ratio < high and waits and self._windows < _AMBIGUOUS:
            return False
        self._tried_from = None
        self._taken_back = waits and ratio < least
        self._narrow(before, now, rate)
        if self._taken_back:
            self.number = before
        return True

    def _narrow(self, before: int, now: int, rate: float) -> None:
        """Leave out the numbers that need no trial after that of *now* workers, which has ended."""
        ratio = rate / self._rate
        if not self._taken_back and now < before:
            self._ceiling = now + 1
        elif not self._taken_back:
            if ratio > _CLEAR_GAIN:  # else it may be noise: fewer are tried once more
                self._floor = before + 1
        elif now < before:
            if ratio > _CLEAR_LOSS:
                self._doubted = now, rate, self._floor
            self._floor = now + 1
        elif ratio < _NO_GAIN:
            # If four times as many are no better at all, twice as many are not either.
            self._ceiling = before + 1
        else:
            self._ceiling = now

    def _reconsider(self, rate: float) -> bool:
        """Go back to the smaller number just rejected if *rate*, measured since, is hardly better.
        Return True then.
        """
        if self._doubted is None:
            return False
        (number, trials_rate, floor), self._doubted = self._doubted, None
        if trials_rate < _LOSS * (self._rate + 2 * rate) / 3:
            return False
        self.number, self._ceiling, self._floor = number, number + 1, floor
        return True

    def _decide(self, rate: float, waits: bool, window: Totals) -> None:
        """Begin a trial of another number of workers, or settle on the present number."""
        number = self.number
        wanted = self._wanted(waits, window)
        self._windows = 0
        if wanted != number:
            # In this order, since another thread may copy the tuner in between: a trial needs a
            # rate to compare with.
            self._rate, self._tried_from, self.number = rate, number, wanted
            return
        if number == self._settled_number:
            self._patience = min(2 * self._patience, _MOST_PATIENCE)
        else:
            self._patience = _PATIENCE
        self._settled_rate, self._settled_waits, self._changed = rate, waits, 0
        self._settled_computing = window.cpu / (window.busy or 1.0)

    def _wanted(self, waits: bool, window: Totals) -> int:
        """Return the number of workers to try next; the present number if none is left to try."""
        number, seconds = self.number, window.now
        busy = min(number, window.busy / seconds)  # workers, as the next
        computing = min(busy, window.cpu / seconds)
        may_shrink = number > _CLOSE * self._floor
        halfway = math.isqrt(self._floor * number)
        if not waits or busy < _BUSY * number:
            enough = max(halfway, math.ceil(busy * _SPARE))
            if may_shrink and enough < number:
                return enough
            return number
        # Many threads that mostly wait for other things also wait for each other's CPUs, which is
        # no sign of full ones.
        may_help = computing < _CPUS_FULL * self.cpus or computing < _MOSTLY_WAITS * busy
        if may_help and number + 1 < self._ceiling:
            more = self._larger_number(mostly_waits=computing < 0.2 * busy)
            if more > number:
                return more
        if may_shrink:
            return max(number // 2, halfway)
        return number

    def _larger_number(self, mostly_waits: bool) -> int:
        """Return the larger number of workers to try next, within ``_ceiling`` and ``most``."""
        more = 2 * self.number
        if mostly_waits:
            more = 4 * self.number
        if self._ceiling <= self.most:  # a number that did not help is known
            more = min(more, math.isqrt(self.number * self._ceiling))
        return min(more, self.most)
