"""No error of a worker process, of its samples, batches, indices or functions hangs or is lost."""

import contextlib
import gc
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import weakref

import pytest
import torch
import torch.utils.data
from torch.utils.data import Dataset, IterableDataset

from ftloader import DataLoader
from ftloader.workers.process import NotedException
from tests.unit.loader.awkward import Failing, drain

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.thread_unsafe(reason="forks"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on few CPUs
]


def failing(error):
    return Failing(error, size=8, at=3)


class NeedsTwo(Exception):
    def __init__(self, a, b):
        super().__init__(f"{a} and {b}")


class Deadly(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def explode(worker_id):
    raise OSError(f"no scratch directory for {worker_id}")


@pytest.mark.parametrize(
    "error", [ValueError("three"), KeyError("three"), OSError(2, "three"), NeedsTwo("three", "four")]
)
def test_an_exception_is_torchs_with_notes(error):
    def failure(kind, **arguments):
        batches, errors = drain(iter(kind(failing(error), batch_size=2, num_workers=2, **arguments)))
        assert batches == [[0, 1], [4, 5], [6, 7]]
        assert len(errors) == 1
        return errors[0]

    ours = failure(DataLoader, worker_method="process")
    torchs = failure(torch.utils.data.DataLoader)
    assert type(ours) is type(torchs)
    first_line = str(torchs).splitlines()[0]
    assert first_line == str(ours).splitlines()[0]
    assert "in DataLoader worker process 1" in first_line
    assert "explode" in str(ours)
    assert [note for note in ours.__notes__ if "dataset[3]" in note]
    assert [note for note in ours.__notes__ if "worker process 1" in note and "[2, 3]" in note]
    assert "".join(traceback.format_exception(ours)).count("dataset[3]") == 1


def test_a_handled_exception_keeps_the_iterator_not_alive():
    gc.collect()
    gc.disable()
    try:
        iterator = iter(DataLoader(failing(KeyError(3)), batch_size=4, num_workers=1, worker_method="process"))
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

    iterator = iter(DataLoader(failing(Local("three")), batch_size=2, num_workers=1, worker_method="process"))
    batches, errors = drain(iterator)
    assert batches == [[0, 1], [4, 5], [6, 7]]
    assert [type(error) for error in errors] == [LookupError]
    assert "Local: three" in str(errors[0])


def test_noted_exception_survives_pickling():
    try:
        raise ValueError("x")
    except ValueError as error:
        error.add_note("a note")
        noted = pickle.loads(pickle.dumps(NotedException(error, "in a test")))
    with pytest.raises(ValueError, match="Caught ValueError in a test") as caught:
        noted.reraise()
    assert caught.value.__notes__ == ["a note"]


@pytest.mark.parametrize("unpicklable", [threading.Lock(), lambda: None])
def test_a_batch_that_cannot_be_pickled_is_an_error(unpicklable):
    class Some(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return unpicklable if index == 1 else index

    dl = DataLoader(Some(), batch_size=None, num_workers=1, worker_method="process")
    iterator = iter(dl)
    assert next(iterator) == 0
    with pytest.raises((TypeError, AttributeError, pickle.PicklingError)) as caught:
        next(iterator)
    assert any("must be picklable" in note for note in caught.value.__notes__)
    assert list(iterator) == [2, 3]


class EndsFirst(IterableDataset):
    """One sample, whose pickling fails when the worker has put the end of its share into the queue."""

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
        EndsFirst(), batch_size=None, num_workers=1, worker_method="process", multiprocessing_context="fork"
    )
    batches, errors = drain(iter(dl))
    assert batches == [] and [type(error) for error in errors] == [TypeError]
    assert "stays here" in str(errors[0])


def test_an_index_that_cannot_be_pickled_is_an_error():
    class Some(Dataset):
        def __getitem__(self, index):
            return 1

    dl = DataLoader(
        Some(), batch_size=None, sampler=[0, threading.Lock(), 2, 3], num_workers=2, worker_method="process"
    )
    iterator = iter(dl)
    assert next(iterator) == 1
    with pytest.raises(TypeError, match="pickle") as caught:
        next(iterator)
    assert any("what the sampler yielded" in note for note in caught.value.__notes__)
    assert list(iterator) == [1, 1]


@pytest.mark.parametrize("kind", ["map", "iterable"])
def test_stop_iteration_of_the_users_code_does_not_end_the_epoch(kind):
    def collate(samples):
        if 3 in samples:
            raise StopIteration("three")
        return torch.tensor(samples)

    class Eight(IterableDataset):
        def __iter__(self):
            return iter(range(8))

    dl = DataLoader(
        range(8) if kind == "map" else Eight(), batch_size=2, num_workers=1, worker_method="process", collate_fn=collate
    )
    batches, errors = drain(iter(dl))
    assert batches == [[0, 1], [4, 5], [6, 7]]
    assert [type(error) for error in errors] == [RuntimeError]
    assert "raised StopIteration" in str(errors[0])


def test_a_failing_init_function_is_told_for_each_batch():
    dl = DataLoader(range(6), batch_size=2, num_workers=1, worker_method="process", worker_init_fn=explode)
    batches, errors = drain(iter(dl))
    assert batches == []
    assert [type(error) for error in errors] == [OSError] * 3
    for error in errors:
        assert "no scratch directory for 0" in str(error) and "in explode" in str(error)
        assert any("worker_init_fn" in note for note in error.__notes__)


class FailsFromTheSecondEpochOn(IterableDataset):
    epochs = 0

    def __iter__(self):
        self.epochs += 1
        if self.epochs > 1:
            raise ConnectionError("no server")
        return iter(range(3))


def test_an_iter_that_fails_in_a_later_epoch_does_not_end_the_worker():
    dl = DataLoader(
        FailsFromTheSecondEpochOn(), batch_size=3, num_workers=1, worker_method="process", persistent_workers=True
    )
    assert [batch.tolist() for batch in dl] == [[0, 1, 2]]
    for _ in range(2):
        with pytest.raises(ConnectionError, match="no server"):
            next(iter(dl))
    dl._iterator = None


@pytest.mark.parametrize("workers", [1, 2])
def test_a_killed_worker_is_an_error(workers):
    dl = DataLoader(Deadly(), batch_size=2, num_workers=workers, worker_method="process")
    with pytest.raises(RuntimeError, match=r"worker \(pid\(?s?\)? .*(killed by signal|exited unexp)"):
        list(dl)


class DiesHandingOver:
    """Asks its worker for something, as a tensor asks for its memory; the worker is killed meanwhile."""

    def __reduce__(self):
        return kill_and_fail, (os.getpid(),)


def kill_and_fail(worker):
    os.kill(worker, signal.SIGKILL)
    raise EOFError


def test_a_worker_that_dies_handing_over_a_batch_is_that_error():
    for _ in range(20):
        dl = DataLoader([DiesHandingOver()], batch_size=None, num_workers=1, worker_method="process")
        with pytest.raises(RuntimeError, match=r"worker \(pid\(?s?\)? .*(killed by signal|exited unexp)"):
            list(dl)


def test_an_error_in_handing_over_a_batch_is_itself_where_all_workers_live(monkeypatch):
    monkeypatch.setattr("ftloader.iterators.processes._ENDS_IN", 0.01)
    dl = DataLoader([Unreadable()], batch_size=None, num_workers=1, worker_method="process")
    with pytest.raises(FileNotFoundError, match="no such file"):
        list(dl)


class Unreadable:
    def __reduce__(self):
        return fail, ()


def fail():
    raise FileNotFoundError("no such file")


def waits_for(queue, frame):
    """Whether the thread with this frame is about to lock *queue* for putting something into it."""
    return frame.f_code is threading.Condition.__enter__.__code__ and frame.f_back.f_code is queue.put.__code__


def test_a_worker_that_dies_while_a_queue_is_locked_leaves_it_unlocked():
    """The signal comes while the main thread waits for the queue's lock, and is handled when it has it."""
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
            queue._notempty.release()  # whoever holds it, so that the iterator ends
    assert unlocked


class FailingSampler:
    def __len__(self):
        return 10

    def __iter__(self):
        yield from range(5)
        raise LookupError("no more")


@pytest.mark.parametrize("workers", [1, 2])
def test_the_samplers_exception_comes_after_its_batches(workers):
    dl = DataLoader(range(10), batch_size=2, sampler=FailingSampler(), num_workers=workers, worker_method="process")
    iterator = iter(dl)
    assert [next(iterator).tolist() for _ in range(2)] == [[0, 1], [2, 3]]
    with pytest.raises(LookupError, match="no more") as caught:
        next(iterator)
    assert any("sampler" in note for note in caught.value.__notes__)
    with pytest.raises(StopIteration):
        next(iterator)


def test_timeout():
    class Slow(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            threading.Event().wait(60 if index else 0)
            return index

    dl = DataLoader(Slow(), batch_size=None, num_workers=1, worker_method="process", timeout=2)
    iterator = iter(dl)
    first = None
    while first is None:
        with contextlib.suppress(RuntimeError):  # a process may take longer to start
            first = next(iterator)
    assert first == 0
    with pytest.raises(RuntimeError, match="timed out after 2 seconds"):
        next(iterator)
    for worker in iterator._workers:
        worker.kill()
