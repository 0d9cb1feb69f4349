"""A source that costs nothing: samples in memory, which come at a rate that can be changed."""

import itertools
import threading
import time

import numpy as np


class Paced:
    """Source of endless, incompressible, different samples of *size* bytes, at *rate* bytes a
    second in all.

    At rate 0 readers wait. ``_changed`` guards ``_rate`` and ``_next``.
    """

    def __init__(self, size, rate):
        self.size = size
        # Not a memoryview: threads that slice one lose count of its slices without the GIL,
        # and it is released.
        self._memory = np.frombuffer(np.random.default_rng(0).bytes(size + (64 << 20)), np.uint8)
        self._changed = threading.Condition()
        self._rate, self._next, self._closed = rate, 0.0, False

    def keys(self):
        return map(str, itertools.count())

    def content(self, key):
        begin = int(key) * 4096 % (64 << 20)
        return self._memory[begin : begin + self.size]

    def read(self, key):
        with self._changed:
            self._changed.wait_for(lambda: self._rate or self._closed)
            due = self._next = max(time.monotonic() - 0.05, self._next) + self.size / (
                self._rate or 1e12
            )
        time.sleep(max(0.0, due - time.monotonic()))  # the rate itself: nothing is waited for
        return self.content(key)

    def set_rate(self, rate):
        with self._changed:
            self._rate, self._next = rate, 0.0
            self._changed.notify_all()

    def close(self):
        with self._changed:
            self._closed = True
            self._changed.notify_all()
