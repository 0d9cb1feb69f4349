"""Sources for the tests: what a sample holds follows from its key, so that a wrong one shows."""

import hashlib
import itertools
import os
import threading


def content(key, size):
    """*size* bytes that only *key* decides."""
    return hashlib.shake_128(key.encode("utf-8", "surrogatepass")).digest(size)


class Numbered:
    """*count* samples (None: without end) of *size* bytes. ``reads`` are the keys in the order of their reading.

    With *gate* an event, no sample is read before that is set.
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
    """Writes each read to a file, before and in one piece: what a killed process has fetched."""

    def __init__(self, count, size, path):
        super().__init__(count, size)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def read(self, key):
        os.write(self._fd, f"{key}\n".encode())
        return content(key, self.size)


class Failing(Numbered):
    """*fail(key, attempt)* gives what reading raises, or None; or other bytes."""

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
    """Every sample of the epoch is what its key says."""
    for index in range(len(cache)):
        sample = cache[index].tobytes()
        assert sample == content(cache.key(index), len(sample))


def keys_of(cache):
    return [cache.key(index) for index in range(len(cache))]


def until(cache, condition):
    """Wait, without polling, until *condition* holds of the statistics."""
    with cache._store.changed:
        assert cache._store.changed.wait_for(lambda: condition(cache.statistics()), 60)
