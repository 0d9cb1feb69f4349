"""Worker threads as others see them, where a finalizer may wait for them,
and two threads that stop a pool.
"""

import concurrent.futures
import queue
import threading

import pytest

from ftloader import fork
from ftloader.batch.fetch import Epoch
from ftloader.batch.in_use import WorkersInUse
from ftloader.iterators.threads import ThreadDataLoaderIter
from ftloader.workers.exit import WorkerThread
from ftloader.workers.pool import WorkerPool


def test_a_worker_is_not_seen_as_a_daemon_thread():
    seen = []
    thread = WorkerThread(target=lambda: seen.append((thread.daemon, threading.Thread().daemon)))
    thread.start()
    thread.join()
    assert seen == [(False, False)] and not thread.daemon


@pytest.mark.parametrize(
    "lock", [threading._active_limbo_lock, fork.registering], ids=["threading", "fork"]
)
def test_a_finalizer_may_not_wait_with_a_lock_that_others_need(lock):
    """Threads that end need the one lock, threads that fork the other."""
    pool = WorkerPool((), False, queue.SimpleQueue(), WorkersInUse(0))
    assert pool.may_wait()
    with lock:
        assert not pool.may_wait()


def test_a_finalizer_may_wait_in_the_thread_that_used_the_iterator_only():
    pool = WorkerPool((), False, queue.SimpleQueue(), WorkersInUse(0))
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        assert not executor.submit(pool.may_wait).result()
        executor.submit(pool.used_by_this_thread).result()
        assert executor.submit(pool.may_wait).result()
        assert not pool.may_wait()
    assert not pool.may_wait()  # nor when that thread is gone


# Steps of another thread between two steps of an iterator or a pool, made to happen exactly there


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

    pool = WorkerPool((), False, queue.SimpleQueue(), WorkersInUse(0))
    pool.epoch = Previous()
    following = Epoch()
    pool.begin_epoch(following)
    assert following.cancelled
