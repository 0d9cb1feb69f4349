"""Worker threads that cannot start, and defects of the engine:
reported, and nothing waits for them.

What user code raises elsewhere is in tests/conformance/test_failures.py.
"""

import gc
import itertools
import queue
import sysconfig
import threading
import time
import weakref

import pytest
import torch

from ftloader import DataLoader
from ftloader.workers import thread as thread_worker
from tests.datasets import Failing, Rows, Whole
from tests.outcomes import drain
from tests.worker_threads import worker_threads

ENDLESS = Whole(itertools.repeat(1))


def test_one_worker_that_cannot_start_leaves_the_batches_to_the_others():
    error = OSError("no scratch directory")

    def init(worker_id):
        if worker_id == 0:
            raise error

    dl = DataLoader(
        torch.arange(20), batch_size=5, num_workers=2, worker_method="thread", worker_init_fn=init
    )
    batches, errors = drain(iter(dl))
    assert errors == [error]
    assert batches == [[*range(i, i + 5)] for i in (0, 5, 10, 15)]
    assert any("loader worker thread 0" in note for note in error.__notes__)


@pytest.mark.parametrize("kind", ["map", "iterable"])
@pytest.mark.parametrize("failure", [OSError("no disk"), StopIteration("oops")])
def test_no_worker_can_start(kind, failure):
    def init(worker_id):
        raise failure

    dataset = range(100) if kind == "map" else ENDLESS
    iterator = iter(DataLoader(dataset, num_workers=2, worker_method="thread", worker_init_fn=init))
    raised = OSError if isinstance(failure, OSError) else RuntimeError
    for _ in range(2):
        with pytest.raises(raised):
            next(iterator)
    # All failures are reported; nothing can come any more, and nothing hangs.
    with pytest.raises(RuntimeError if kind == "map" else StopIteration):
        next(iterator)


def test_no_worker_can_start_and_the_last_one_ends_first():
    # The first batch is worker 0's; by then worker 1 must not be given another one.
    class Others:  # classes are not copied for the workers
        queue = queue.SimpleQueue()

    def init(worker_id):
        if worker_id == 0:
            Others.queue.get(timeout=30).join(30)
        else:
            Others.queue.put(threading.current_thread())
        raise OSError(f"worker {worker_id} has no disk")

    iterator = iter(DataLoader(ENDLESS, num_workers=2, worker_method="thread", worker_init_fn=init))
    for worker_id in (1, 0):
        with pytest.raises(OSError, match=f"worker {worker_id} has no disk"):
            next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_a_failed_start_is_reported_even_if_no_batch_was_asked_for():
    def init(worker_id):
        raise OSError("no disk")

    dl = DataLoader([], num_workers=1, worker_method="thread", worker_init_fn=init)
    with pytest.raises(OSError, match="no disk"):
        list(dl)


def test_an_odd_index_does_not_hide_the_error():
    class BadRepr:
        def __repr__(self):
            raise RuntimeError("repr")

    index = BadRepr()
    rows = Failing(LookupError("no such row"), at=[index])
    with pytest.raises(LookupError, match="no such row"):
        list(
            DataLoader(
                rows, batch_size=None, sampler=[index], num_workers=1, worker_method="thread"
            )
        )


def test_a_defect_in_the_engine_ends_the_epoch_with_its_error(monkeypatch):
    def broken(*args):
        raise MemoryError("engine")

    monkeypatch.setattr(thread_worker, "Result", broken)
    iterator = iter(DataLoader(range(100), num_workers=2, worker_method="thread"))
    with pytest.raises(MemoryError, match="engine"):
        next(iterator)
    with pytest.raises((MemoryError, RuntimeError)):  # the other worker's, or shut down
        next(iterator)


class Sample:
    """An object that can be referred to weakly."""


def test_a_handled_exception_keeps_nothing_alive():
    gc.collect()
    gc.disable()
    try:
        references = []

        def load(index):
            sample = Sample()
            references.append(weakref.ref(sample))
            if index == 1:
                raise ValueError("one")
            return sample

        dl = DataLoader(
            Rows(4, load), batch_size=2, num_workers=1, worker_method="thread", collate_fn=len
        )
        iterator = iter(dl)
        references.append(weakref.ref(iterator))
        try:
            next(iterator)
        except ValueError:
            pass
        assert next(iterator) == 2
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            # There an object of a worker that waits is not freed by its count alone.
            gc.collect()
        del iterator
        assert worker_threads() == []
        assert [reference() for reference in references] == [None] * 5
    finally:
        gc.enable()


def test_a_failure_that_is_not_handed_over_keeps_nothing_alive():
    both, failed, go = threading.Barrier(2), threading.Event(), threading.Event()

    def load(index):
        both.wait(30)
        if index == 1:
            go.wait(30)
            return index
        failed.set()
        raise ValueError(index)

    dataset = Rows(2, load)
    iterator = iter(DataLoader(dataset, batch_size=2, num_workers=2, worker_method="thread"))
    pool, reference = iterator._pool, weakref.ref(dataset)
    gc.disable()
    try:
        failed.wait(30)
        time.sleep(0.1)  # until the failure is noted
        pool.stop()
        go.set()
        pool.join()
        del dataset, iterator
        assert reference() is None
    finally:
        gc.enable()
