"""How fast fetchers may be, so that they cost the training loop no more than a set share of its time."""

import math
import threading
import time
from collections.abc import Callable

from ftloader.cache.errors import CacheError

_WINDOW = 0.2  # seconds
_FASTER = 1.1  # what is allowed grows by so much in a window that cost less


class Pace:
    """CPU seconds a second that all fetchers together may use.

    What they cost the training thread is at most what they use of the CPUs, and at most the time for which that thread
    could have run and others had the CPU, as the kernel counts it. If the smaller of the two is more than *share* of
    a window, less is allowed: never less than *share*, which cannot cost more. (What the thread waits for the GIL, or
    for batches, is not seen.)

    Fetchers go on one after the other, as what each has used is within what is allowed, so that there is always one
    whose next sample shows whether the CPUs are free again. The last of 16, whose samples take 0.3 CPU seconds each,
    pauses for 96 s at a share of 0.05.

    ``_lock`` guards everything.
    """

    def __init__(
        self, share: float, thread: int, *, queued: Callable[[int], float | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._share, self._clock, self._queued = share, clock, queued or _queued
        self._lock = threading.Lock()
        self._allowed = math.inf
        self._free = -math.inf  # when what was used by now is within what is allowed
        self._used = 0.0  # in this window
        self._thread = -1
        self.follow(thread)

    def follow(self, thread: int) -> None:
        """The training loop runs in this thread (``threading.get_native_id()``), which is alive.

        Raises ``CacheError`` if the kernel does not count."""
        with self._lock:
            if thread != self._thread:
                if (queued := self._queued(thread)) is None:
                    raise CacheError("most_cost needs /proc/self/task/*/schedstat, which this kernel does not have")
                self._thread, self._began, self._before, self._used = thread, self._clock(), queued, 0.0

    def used(self, seconds: float) -> float:
        """A fetcher has used so much of a CPU. Returns how long it is to pause."""
        with self._lock:
            now = self._clock()
            self._used += seconds
            if (elapsed := now - self._began) >= _WINDOW:
                self._adjust(now, elapsed)
            self._free = max(self._free, now) + seconds / self._allowed
            return max(0.0, self._free - now - _WINDOW / 4)  # not a pause for each sample

    def _adjust(self, now: float, elapsed: float) -> None:
        try:
            queued = self._queued(self._thread)
        except OSError:  # no file can be opened now: the window goes on
            return
        if queued is None:  # the thread has ended, so nothing costs it anything
            queued = self._before
        cost = min(queued - self._before, self._used) / elapsed
        if cost > self._share:
            self._allowed = max(self._share, min(self._allowed, self._used / elapsed) * self._share / cost)
        else:
            self._allowed *= _FASTER
        self._began, self._before, self._used = now, queued, 0.0


def _queued(thread: int) -> float | None:
    """Seconds for which a thread of this process could have run, and others had the CPU; None if there is no such
    thread, or the kernel does not count."""
    try:
        with open(f"/proc/self/task/{thread}/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return None
