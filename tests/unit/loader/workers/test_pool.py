"""A worker thread as others see it, and where a finalizer may wait for worker threads."""

import concurrent.futures
import queue
import threading

import pytest

from ftloader import fork
from ftloader.workers.exit import WorkerThread
from ftloader.workers.pool import WorkerPool


def test_a_worker_is_not_seen_as_a_daemon_thread_and_has_an_exit_code():
    seen = []

    def look():
        seen.append((thread.daemon, threading.Thread().daemon, thread.exitcode))

    thread = WorkerThread(target=look)
    assert thread.exitcode is None
    thread.start()
    thread.join()
    assert seen == [(False, False, None)]
    assert not thread.daemon and thread.exitcode == 0


@pytest.mark.parametrize("lock", [threading._active_limbo_lock, fork.registering], ids=["threading", "fork"])
def test_a_finalizer_may_not_wait_with_a_lock_that_others_need(lock):
    """Threads that end need the one lock, threads that fork the other."""
    pool = WorkerPool((), False, queue.SimpleQueue())
    assert pool.may_wait()
    with lock:
        assert not pool.may_wait()


def test_a_finalizer_may_wait_in_the_thread_that_used_the_iterator_only():
    pool = WorkerPool((), False, queue.SimpleQueue())
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        assert not executor.submit(pool.may_wait).result()
        executor.submit(pool.used_by_this_thread).result()
        assert executor.submit(pool.may_wait).result()
        assert not pool.may_wait()
    assert not pool.may_wait()  # nor when that thread is gone
