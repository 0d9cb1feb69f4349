"""Sources for the tests. The bytes of a sample follow from its key,
so that a wrong sample shows.
"""

import dataclasses
import hashlib
import itertools
import os
import threading


def content(key, size):
    """Return *size* bytes that depend on *key* alone."""
    return hashlib.shake_128(key.encode("utf-8", "surrogatepass")).digest(size)


class Numbered:
    """Source of *count* samples (None: endless) of *size* bytes. ``reads`` has the keys in the
    order of reading.

    If *gate* is an event, no sample is read before it is set.
    """

    def __init__(self, count, size=1000, gate=None):
        self.count, self.size, self._gate = count, size, gate
        self.reads = []  # appending is one atomic operation

    def keys(self):
        numbers = itertools.count() if self.count is None else range(self.count)
        return (f"sample {number}" for number in numbers)

    def read(self, key):
        if self._gate is not None:
            self._gate.wait()
        self.reads.append(key)
        return content(key, self.size)


class Logged(Numbered):
    """Source that logs each read in a file beforehand,
    in one piece, for processes that are killed.
    """

    def __init__(self, count, size, path):
        super().__init__(count, size)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def read(self, key):
        os.write(self._fd, f"{key}\n".encode())
        return content(key, self.size)


class Failing(Numbered):
    """Source whose *fail(key, attempt)* returns the error to raise, None, or other bytes."""

    def __init__(self, count, fail, size=1000):
        super().__init__(count, size)
        self._fail = fail
        self._lock = threading.Lock()
        self.attempts = {}

    def read(self, key):
        with self._lock:
            attempt = self.attempts[key] = self.attempts.get(key, 0) + 1
        failure = self._fail(key, attempt)
        if isinstance(failure, BaseException):
            raise failure
        return super().read(key) if failure is None else failure


def check(cache):
    """Check every sample of the epoch against its key."""
    for index in range(len(cache)):
        sample = cache[index].tobytes()
        assert sample == content(cache.key(index), len(sample))


def keys_of(cache):
    return [cache.key(index) for index in range(len(cache))]


def check_whole(cache, source, epoch):
    """Set the epoch, and check that it consists of every sample of *source*."""
    cache.set_epoch(epoch)
    check(cache)
    assert sorted(keys_of(cache)) == sorted(source.keys())


def require(cache, count):
    """Let the next ``set_epoch`` wait for *count* samples."""
    cache._writer._settings = dataclasses.replace(cache._writer._settings, min_samples=count)


def until(cache, condition):
    """Wait, without polling, until *condition* holds of the statistics."""
    with cache._writer.store.changed:
        assert cache._writer.store.changed.wait_for(lambda: condition(cache.statistics()), 600)
