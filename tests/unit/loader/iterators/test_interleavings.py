"""Steps of another thread between two steps of an iterator or a pool, made to happen exactly there."""

import queue

import pytest

from ftloader.batch.fetch import Epoch
from ftloader.iterators.threads import ThreadDataLoaderIter
from ftloader.workers.pool import WorkerPool

pytestmark = pytest.mark.filterwarnings("error")


def test_another_epoch_begins_between_two_looks_of_close():
    """close() waits for the pool that it stopped."""
    calls = []

    class Pool:
        def __init__(self, name):
            self._name = name

        def stop(self):
            calls.append(f"stop {self._name}")
            iterator._pool = Pool("new")

        def join(self):
            calls.append(f"join {self._name}")

    iterator = ThreadDataLoaderIter.__new__(ThreadDataLoaderIter)
    iterator._pool = Pool("old")
    iterator.close()
    assert calls == ["stop old", "join old"]


def test_the_pool_is_stopped_while_an_epoch_begins():
    """The stopping thread knows the previous epoch only; the new one must be cancelled too."""

    class Previous(Epoch):
        """Epoch that stops the pool as soon as it is cancelled."""

        __slots__ = ("_cancelled",)

        @property
        def cancelled(self):
            return self._cancelled

        @cancelled.setter
        def cancelled(self, value):
            self._cancelled = value
            if value and not pool.stopped:
                pool.stop()

    pool = WorkerPool((), False, queue.SimpleQueue())
    pool.epoch = Previous()
    following = Epoch()
    pool.begin_epoch(following)
    assert following.cancelled
