"""The sample that a thread is loading, its slot in the batch, and the worker that the thread is.

The code that loads a sample enters it here; ``sample_rng()`` and ``empty_sample()`` look it up. Each thread has its own
``this_thread``; hence no lock.
"""

import operator
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from ftloader import fork

NO_SAMPLE: Final = object()
"""Key of the current sample in a thread that is not loading one."""


class SeededEpoch(Protocol):
    """The part of an epoch that random numbers derive from."""

    base_seed: int
    number: int


class CurrentSample:
    """The sample that one thread is loading, and the place in the batch where it will be written."""

    __slots__ = ("_seen", "epoch", "given", "key", "position", "rest", "rng", "slots")

    epoch: SeededEpoch | None
    key: Any  # the sample's key, or the keys of several samples that ``rest`` iterates over
    rest: Iterator | None  # over several keys that are loaded in turn
    rng: Any  # the sample's SampleRNG, once it has been asked for
    slots: Any  # the batch's Slots; None also once empty_sample() has given the sample's slot away
    position: int  # of the sample in slots
    given: int | None  # the leaf whose slot empty_sample() has given away

    def __init__(self) -> None:
        self.epoch = None
        self.leave()

    def enter(self, epoch: SeededEpoch, key: Any, slots: Any = None, position: int = 0) -> None:
        """Enter the sample *key* of *epoch*, which will be written to *position* of *slots*, if there are slots."""
        # All workers share the epoch's reference count, and writing to it costs more than a comparison.
        if self.epoch is not epoch:
            self.epoch = epoch
        self.key, self.rest, self.rng = key, None, None
        self.slots, self.position, self.given = slots, position, None

    def enter_all(self, epoch: SeededEpoch, keys: Sequence[Any], rest: Iterator) -> None:
        """Enter the samples *keys* in turn: the state of *rest*, an iterator over *keys*, says which is current."""
        if self.epoch is not epoch:
            self.epoch = epoch
        self.key, self.rest, self.rng, self._seen = keys, rest, None, -1

    def leave(self) -> None:
        """Enter no sample, and refer to nothing of the last one."""
        self.key, self.rest, self.rng = NO_SAMPLE, None, None
        self.slots, self.position, self.given = None, 0, None

    def locate(self) -> Any:
        """Return the key of the sample that is being loaded, and drop the generators of an earlier one."""
        if self.rest is None:
            return self.key
        left = operator.length_hint(self.rest)
        if left != self._seen:
            self._seen, self.rng = left, None
        return self.key[-1 - left]


class _PerThread(threading.local):
    worker: Any = None
    """``WorkerInfo`` of the loader's worker that this thread is, or None."""

    def __init__(self) -> None:  # runs once in each thread that asks
        self.sample = CurrentSample()


this_thread = _PerThread()


def enter_sample(epoch: SeededEpoch, key: Any) -> None:
    """Make *key* of *epoch* the sample that this thread is loading."""
    this_thread.sample.enter(epoch, key)


def leave_sample() -> None:
    """Record that this thread is loading no sample, and refer to nothing of the last one."""
    this_thread.sample.leave()


class _Temporarily:
    """Context manager that sets an attribute of ``this_thread`` for a block."""

    # contextlib's would set ``__traceback__`` of an exception in the block, which the exception's class may refuse.
    __slots__ = ("_name", "_outer", "_value")

    def __init__(self, name: str, value: Any) -> None:
        self._name, self._value = name, value

    def __enter__(self) -> None:
        self._outer = getattr(this_thread, self._name)
        setattr(this_thread, self._name, self._value)

    def __exit__(self, *exc_info: object) -> None:
        setattr(this_thread, self._name, self._outer)


def sample_scope() -> _Temporarily:
    """Return to the thread's present sample at the end of the block, in which a dataset may iterate a loader."""
    return _Temporarily("sample", CurrentSample())


def acting_as(info: Any) -> _Temporarily:
    """Make ``get_worker_info()`` return *info* within the block, in this thread only."""
    return _Temporarily("worker", info)


def _forget_after_fork() -> None:
    # A process that is forked in the middle of a sample must not repeat its parent's draws, nor be that worker.
    leave_sample()
    this_thread.worker = None


fork.call_in_child(_forget_after_fork)
