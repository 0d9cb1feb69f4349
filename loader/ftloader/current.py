"""Thread-local record of the sample that a thread is loading, of the sample's slot, and of the
thread's worker info.

The code that loads a sample writes the record. ``sample_rng()`` and ``empty_sample()`` read it. No
lock is needed.
"""

import operator
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ftloader import fork

NO_SAMPLE: Final = object()  # key of the current sample in a thread that is not loading one


class CurrentSample:
    """Record of the sample that one thread is loading, and of its place in the batch."""

    __slots__ = ("_seen", "epoch", "given", "key", "position", "rest", "rng", "slots")

    # has ``base_seed`` and ``number``, from which the random numbers of samples are derived
    epoch: Any
    key: Any  # the sample's key, or the keys of several samples that ``rest`` iterates over
    rest: Iterator | None  # iterator over several keys that are loaded in turn
    rng: Any  # the sample's SampleRNG; None until sample_rng() is called
    slots: Any  # the batch's Slots; None also once empty_sample() has returned the sample's slot
    position: int  # of the sample in slots
    given: int | None  # number of the leaf whose slot empty_sample() has returned

    def __init__(self) -> None:
        self.epoch = None
        self.leave()

    def enter(self, epoch: Any, key: Any, slots: Any = None, position: int = 0) -> None:
        """Record the sample *key* of *epoch* as current. Its place in the batch is *position* in
        *slots*, if any.
        """
        # All workers share the epoch's reference count,
        # and writing to it costs more than a comparison.
        if self.epoch is not epoch:
            self.epoch = epoch
        self.key, self.rest, self.rng = key, None, None
        self.slots, self.position, self.given = slots, position, None

    def enter_all(self, epoch: Any, keys: Sequence[Any], rest: Iterator) -> None:
        """Record that the thread loads *keys* in turn.
        The key that the iterator *rest* gave last is current.
        """
        if self.epoch is not epoch:
            self.epoch = epoch
        self.key, self.rest, self.rng, self._seen = keys, rest, None, -1

    def leave(self) -> None:
        """Record that this thread is loading no sample.
        Drop all references to the sample loaded before.
        """
        self.key, self.rest, self.rng = NO_SAMPLE, None, None
        self.slots, self.position, self.given = None, 0, None

    def locate(self) -> Any:
        """Return the current sample's key. If it changed since the last call,
        drop the earlier sample's generators.
        """
        if self.rest is None:
            return self.key
        left = operator.length_hint(self.rest)
        if left != self._seen:
            self._seen, self.rng = left, None
        return self.key[-1 - left]


class _PerThread(threading.local):
    worker: Any = None  # ``WorkerInfo`` of this thread if it is a loader's worker, else None

    def __init__(self) -> None:  # runs once in each thread that asks
        self.sample = CurrentSample()


this_thread = _PerThread()


def enter_sample(epoch: Any, key: Any) -> None:
    this_thread.sample.enter(epoch, key)


class _Temporarily:
    """Context manager that sets an attribute of ``this_thread``,
    and restores the attribute at the end.
    """

    # contextlib's would set ``__traceback__`` of an exception in the block, which the exception's
    # class may refuse.
    __slots__ = ("_name", "_outer", "_value")

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value

    def __enter__(self) -> None:
        self._outer = getattr(this_thread, self._name)
        setattr(this_thread, self._name, self._value)

    def __exit__(self, *exc_info: object) -> None:
        setattr(this_thread, self._name, self._outer)


def sample_scope() -> _Temporarily:
    """Return a context manager with a separate ``CurrentSample``, for a dataset that may itself
    iterate a loader.
    """
    return _Temporarily("sample", CurrentSample())


def acting_as(info: Any) -> _Temporarily:
    """Return a context manager in which ``get_worker_info()`` returns *info*,
    in this thread only.
    """
    return _Temporarily("worker", info)


def _forget_after_fork() -> None:
    # A process forked in the middle of a sample must not repeat its parent's random draws, nor
    # count as a worker.
    this_thread.sample.leave()
    this_thread.worker = None


fork.call_in_child(_forget_after_fork)
