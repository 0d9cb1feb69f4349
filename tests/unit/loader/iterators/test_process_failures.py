"""Errors of worker processes that neither hang nor get lost:
dead workers, and what cannot be pickled.

What user code raises elsewhere is in tests/conformance/test_failures.py.
"""

import contextlib
import gc
import os
import signal
import sys
import threading
import time
import weakref

import pytest
from torch.utils.data import IterableDataset

from ftloader import DataLoader
from tests.datasets import Failing, Rows
from tests.outcomes import drain


def test_a_handled_exception_does_not_keep_the_iterator_alive():
    gc.collect()
    gc.disable()
    try:
        iterator = iter(
            DataLoader(Failing(KeyError), batch_size=4, num_workers=1, worker_method="process")
        )
        with contextlib.suppress(KeyError):
            next(iterator)
        reference = weakref.ref(iterator)
        del iterator
        assert reference() is None
    finally:
        gc.enable()


def test_an_exception_of_a_local_class_does_not_hang():
    class Local(LookupError):
        pass

    dataset = Failing(Local("three"), size=8, at=[3])
    batches, errors = drain(
        DataLoader(dataset, batch_size=2, num_workers=1, worker_method="process")
    )
    assert batches == [[0, 1], [4, 5], [6, 7]]
    assert [type(error) for error in errors] == [LookupError]
    assert "Local: three" in str(errors[0])


class EndsFirst(IterableDataset):
    """Stream of one sample, whose pickling fails once the worker has put the end
    of its share into the queue.
    """

    ended = threading.Event()  # of the worker's process

    def __iter__(self):
        yield self
        self.ended.set()

    def __reduce__(self):
        assert self.ended.wait(60)
        time.sleep(0.2)  # the worker is on its way from there to the queue
        raise TypeError("stays here")


def test_the_last_batch_of_a_share_that_cannot_be_pickled():
    dl = DataLoader(
        EndsFirst(),
        batch_size=None,
        num_workers=1,
        worker_method="process",
        multiprocessing_context="fork",
    )
    batches, errors = drain(iter(dl))
    assert batches == [] and [type(error) for error in errors] == [TypeError]
    assert "stays here" in str(errors[0])


def test_an_index_that_cannot_be_pickled_is_an_error():
    sampler = [0, threading.Lock(), 2, 3]
    iterator = iter(
        DataLoader(Rows(), batch_size=None, sampler=sampler, num_workers=2, worker_method="process")
    )
    assert next(iterator) == 0
    with pytest.raises(TypeError, match="pickle") as caught:
        next(iterator)
    assert any("what the sampler yielded" in note for note in caught.value.__notes__)
    assert list(iterator) == [2, 3]


class FailsLater(IterableDataset):
    epochs = 0

    def __iter__(self):
        self.epochs += 1
        if self.epochs > 1:
            raise ConnectionError("no server")
        return iter(range(3))


def test_an_iter_that_fails_in_a_later_epoch_does_not_end_the_worker():
    dl = DataLoader(
        FailsLater(), batch_size=3, num_workers=1, worker_method="process", persistent_workers=True
    )
    assert [batch.tolist() for batch in dl] == [[0, 1, 2]]
    for _ in range(2):
        with pytest.raises(ConnectionError, match="no server"):
            next(iter(dl))
    dl._iterator = None


def kill_itself(index):
    os.kill(os.getpid(), signal.SIGKILL)


def test_one_of_two_workers_that_is_killed_is_an_error():
    dl = DataLoader(
        Failing(kill_itself, size=8), batch_size=2, num_workers=2, worker_method="process"
    )
    with pytest.raises(
        RuntimeError, match=r"worker \(pid\(?s?\)? .*(killed by signal|exited unexp)"
    ):
        list(dl)


class Unreadable:
    """Sample whose unpickling calls *function* with the id of the worker's process."""

    def __init__(self, function):
        self.function = function

    def __reduce__(self):
        return self.function, (os.getpid(),)


def kill_and_fail(worker):
    """Ask the worker for memory, as a tensor does, and find it killed."""
    os.kill(worker, signal.SIGKILL)
    raise EOFError


def fail(worker):
    raise FileNotFoundError("no such file")


@pytest.mark.slow
def test_a_worker_that_dies_handing_over_a_batch_is_that_error():
    for _ in range(20):
        dl = DataLoader(
            [Unreadable(kill_and_fail)], batch_size=None, num_workers=1, worker_method="process"
        )
        with pytest.raises(
            RuntimeError, match=r"worker \(pid\(?s?\)? .*(killed by signal|exited unexp)"
        ):
            list(dl)


def test_an_error_in_handing_over_a_batch_is_itself_where_all_workers_live(monkeypatch):
    monkeypatch.setattr("ftloader.iterators.processes._ENDS_IN", 0.01)
    dl = DataLoader([Unreadable(fail)], batch_size=None, num_workers=1, worker_method="process")
    with pytest.raises(FileNotFoundError, match="no such file"):
        list(dl)


def waits_for(queue, frame):
    """True if the thread with this frame is about to lock *queue* to put something into it."""
    return (
        frame.f_code is threading.Condition.__enter__.__code__
        and frame.f_back.f_code is queue.put.__code__
    )


def test_a_worker_that_dies_while_a_queue_is_locked_leaves_it_unlocked():
    """The signal comes while the main thread waits for the queue's lock,
    and is handled when it has it.
    """
    iterator = iter(DataLoader(range(100), num_workers=1, worker_method="process"))
    next(iterator)
    (queue,), (worker,), main = iterator._index_queues, iterator._workers, threading.get_ident()
    held = threading.Event()

    def hold():
        with queue._notempty:
            held.set()
            while not waits_for(queue, sys._current_frames()[main]):
                time.sleep(0.001)
            os.kill(worker.pid, signal.SIGKILL)
            os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    # So that it is another thread which gets it: the main thread waits on.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    with pytest.raises(RuntimeError, match="killed by signal"):
        try:
            try:
                queue.put(None)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            list(iterator)
        finally:
            thread.join()
            unlocked = queue._notempty.acquire(timeout=10)
            queue._notempty.release()  # by whichever thread holds it, so that the iterator ends
    assert unlocked
