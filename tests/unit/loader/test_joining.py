"""Waiting for worker threads has one limit, and names those that are left with their stacks."""

import threading

import pytest

from ftloader import DataLoader, joining

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.thread_unsafe(reason="replaces attributes of modules, records warnings"),
]


@pytest.fixture
def stuck():
    """Three threads that wait for the end of the test."""
    leave = threading.Event()
    barrier = threading.Barrier(4)

    def wait_for_a_server():
        with joining.calling_user_code():
            barrier.wait()
            leave.wait()

    threads = [joining.WorkerThread(target=wait_for_a_server, name=f"worker-{n}") for n in range(3)]
    for thread in threads:
        thread.start()
    barrier.wait()
    yield threads
    leave.set()
    for thread in threads:
        thread.join()


def test_a_worker_is_no_daemon_thread_to_anybody(stuck):
    seen = []

    def look():
        seen.append((threading.current_thread().daemon, threading.Thread().daemon))

    thread = joining.WorkerThread(target=look)
    assert not thread.daemon
    thread.start()
    thread.join()
    assert seen == [(False, False)]
    assert not any(thread.daemon for thread in stuck)


def test_join_all(stuck):
    ended = joining.WorkerThread(target=int)
    ended.start()
    not_started = joining.WorkerThread(target=int)
    everybody = [*stuck, ended, not_started, threading.current_thread()]
    assert joining.join_all(everybody, limit=0.1) == stuck
    assert joining.join_all([ended, not_started], limit=1000) == []
    assert not ended.is_alive()


def test_a_thread_that_could_not_be_started_can_be_started_again(monkeypatch):
    thread = joining.WorkerThread(target=int)
    with monkeypatch.context() as context:
        context.setattr(threading, "_start_joinable_thread", lambda *args, **kwargs: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            thread.start()
    assert not thread.daemon
    thread.start()
    thread.join()


def test_report(stuck):
    with pytest.warns(RuntimeWarning) as caught:
        joining.report_stuck(stuck, 0.1, "It goes on.")
    text = str(caught[0].message)
    assert text.startswith("worker-0, worker-1, worker-2 did not end within 0.1 s of being told to")
    assert "It goes on." in text
    for thread in stuck:
        assert f"{thread.name} (thread {thread.native_id}, most recent call first):" in text
    assert text.count("in wait_for_a_server\n") == 3
    assert "_bootstrap" not in text
    assert caught[0].filename == __file__


def test_user_code_is_blamed_only_where_it_runs(stuck):
    """Not for a worker that has not come to it, on a machine that stands still."""
    leave = threading.Event()
    starved = joining.WorkerThread(target=leave.wait, name="starved")
    starved.start()
    try:
        texts = []
        for threads in (stuck, [starved], [stuck[0], starved]):
            with pytest.warns(RuntimeWarning) as caught:
                joining.report_stuck(threads, 0.1, "It goes on.")
            texts.append(str(caught[0].message).split(" It goes on.")[0])
    finally:
        leave.set()
        starved.join()
    assert texts[0].endswith("because a call into the dataset, collate_fn or worker_init_fn has not returned.")
    assert texts[1].startswith("starved did not") and texts[1].endswith("the machine gives it no time to run.")
    assert "has not returned" not in texts[1]
    assert texts[2].endswith("has not returned; but for starved, to which the machine gives no time to run.")


def test_a_worker_says_when_it_is_in_user_code():
    inside = []

    class Looking:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            inside.append(threading.current_thread().in_user_code)
            return index

    def init(worker_id):
        inside.append(threading.current_thread().in_user_code)

    arguments = {"num_workers": 1, "worker_method": "thread", "persistent_workers": True, "worker_init_fn": init}
    for batch_size in (2, None):
        loader = DataLoader(Looking(), batch_size, **arguments)
        iterator = iter(loader)
        assert len(list(iterator)) == 4 // (batch_size or 1)
        (worker,) = iterator._pool.threads
        iterator.close()
        assert not worker.in_user_code
    assert inside == [True] * 10


def test_report_where_no_file_can_be_made(stuck, monkeypatch):
    def refuse(*args, **kwargs):
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(joining.tempfile, "TemporaryFile", refuse)
    with pytest.warns(RuntimeWarning, match="worker-2 did not end") as caught:
        joining.report_stuck(stuck, 0.1, "It goes on.")
    assert "stacks not available: no usable temporary directory" in str(caught[0].message)


def test_a_finalizer_may_not_wait_inside_the_threading_module():
    assert joining.may_wait()
    with threading._active_limbo_lock:
        assert not joining.may_wait()
