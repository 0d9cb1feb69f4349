"""Waiting for worker threads: one limit for all, and a report of the stacks of those that are left."""

import concurrent.futures
import queue
import threading

import pytest

from ftloader import fork
from ftloader.workers import exit as program_exit
from ftloader.workers.exit import WorkerThread
from ftloader.workers.pool import WorkerPool

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.thread_unsafe(reason="replaces attributes of modules, records warnings"),
]


@pytest.fixture
def stuck():
    """Yield three threads that wait for the end of the test."""
    leave = threading.Event()
    barrier = threading.Barrier(4)

    def wait_for_a_server():
        barrier.wait()
        leave.wait()

    threads = [WorkerThread(target=wait_for_a_server, name=f"worker-{n}") for n in range(3)]
    for thread in threads:
        thread.start()
    barrier.wait()
    yield threads
    leave.set()
    for thread in threads:
        thread.join()


def test_a_worker_is_not_seen_as_a_daemon_thread(stuck):
    seen = []

    def look():
        seen.append((threading.current_thread().daemon, threading.Thread().daemon))

    thread = WorkerThread(target=look)
    thread.start()
    thread.join()
    assert seen == [(False, False)]
    assert not any(thread.daemon for thread in stuck)


def test_join_all(stuck):
    ended = WorkerThread(target=int)
    ended.start()
    not_started = WorkerThread(target=int)
    everybody = [*stuck, ended, not_started, threading.current_thread()]
    assert program_exit.join_all(everybody, limit=0.1) == stuck
    assert program_exit.join_all([ended, not_started], limit=1000) == []
    assert not ended.is_alive()


def test_report(stuck):
    with pytest.warns(RuntimeWarning) as caught:
        program_exit.report_stuck(stuck, 0.1, "It goes on.")
    text = str(caught[0].message)
    assert text.startswith("worker-0, worker-1, worker-2 did not end within 0.1 s of being told to")
    assert "It goes on." in text
    for thread in stuck:
        assert f"{thread.name} (thread {thread.native_id}, most recent call first):" in text
    assert text.count("in wait_for_a_server\n") == 3
    assert "_bootstrap" not in text
    assert caught[0].filename == __file__


def test_report_where_no_file_can_be_made(stuck, monkeypatch):
    def refuse(*args, **kwargs):
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(program_exit.tempfile, "TemporaryFile", refuse)
    with pytest.warns(RuntimeWarning, match="worker-2 did not end") as caught:
        program_exit.report_stuck(stuck, 0.1, "It goes on.")
    assert "stacks not available: no usable temporary directory" in str(caught[0].message)


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
