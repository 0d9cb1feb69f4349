"""``num_workers="auto"``: threads are added and parked while the epoch runs,
and nothing else changes.
"""

import copy
import itertools
import pickle
import sys
import threading
import time

import pytest
import torch

from ftloader import DataLoader
from ftloader.diagnosis.limits import usable_cpus
from ftloader.workers.exit import WorkerThread
from ftloader.workers.thread import WorkerContext
from tests.datasets import Rows


def auto(dataset, *args, **arguments):
    return DataLoader(dataset, *args, num_workers="auto", worker_method="thread", **arguments)


def waiting(index):
    time.sleep(0.02)
    return index


def test_the_attribute_is_the_number_of_cpus():
    for loader in (
        auto(Rows()),
        DataLoader(Rows(), 4, False, None, None, "auto"),
        DataLoader(Rows()),
    ):
        loader.num_workers = "auto"
        assert isinstance(loader.num_workers, int)
        assert loader.num_workers == usable_cpus()
    rebuilt = DataLoader(Rows(), num_workers=auto(Rows()).num_workers, worker_method="thread")
    list(rebuilt)
    assert rebuilt.statistics().max_workers == max(64, usable_cpus())
    rebuilt.num_workers = 3
    list(rebuilt)
    assert (rebuilt.statistics().num_workers, rebuilt.statistics().max_workers) == (3, None)


def test_it_begins_with_a_thread_for_each_cpu_or_with_one_where_the_gil_is_on():
    loader = auto(Rows(), 4)
    list(loader)
    assert loader.statistics().numbers[0] == (0.0, 1 if sys._is_gil_enabled() else usable_cpus())


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", True])
def test_max_workers_is_a_number_of_workers(bad):
    with pytest.raises(ValueError, match="max_workers must be an integer from 1"):
        auto(Rows(), max_workers=bad)


def test_other_text_than_auto_is_no_number_of_workers():
    loader = DataLoader(Rows())
    for give in (
        lambda: DataLoader(Rows(), num_workers="2"),
        lambda: setattr(loader, "num_workers", "Auto"),
    ):
        with pytest.raises(TypeError, match='num_workers must be a number or "auto", got '):
            give()
    assert loader.num_workers == 0


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.slow
def test_loading_that_waits_gets_more_threads_and_the_next_epoch_and_copies_start_with_them(
    persistent,
):
    loader = auto(Rows(2400, waiting), 16, max_workers=16, persistent_workers=persistent)
    assert torch.cat(list(loader)).tolist() == [*range(2400)]
    found = loader.statistics()
    assert usable_cpus() < found.num_workers <= 16
    assert [number for _, number in found.numbers][-1] == found.num_workers
    assert len(found.workers) == max(number for _, number in found.numbers)
    assert sum(worker.samples for worker in found.workers) == 2400
    for each in (loader, copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        iterator = iter(each)
        next(iterator)
        assert each.statistics().numbers[0] == (0.0, found.num_workers)
        iterator.close()


@pytest.mark.slow
def test_a_loop_that_is_slow_gets_fewer_threads():
    loader = auto(Rows(1000), 10)
    for _ in range(5):
        # other programs may take the CPUs for most of an epoch: then it waits for its data
        for _ in loader:
            time.sleep(0.02)
        if loader.statistics().num_workers == 1:
            return
    raise AssertionError(loader.statistics())


@pytest.mark.slow
def test_a_system_that_starts_no_more_threads(monkeypatch):
    start, limit = WorkerThread.start, usable_cpus() + 1

    def limited(thread):
        if thread.name == f"loader-worker-{limit}":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(WorkerThread, "start", limited)
    loader = auto(Rows(600, waiting), 16)
    most = 0
    for _ in range(5):  # other programs may take the CPUs for most of an epoch
        if most < limit:
            assert torch.cat(list(loader)).tolist() == [*range(600)]
            most = max(number for _, number in loader.statistics().numbers)
    assert most == limit


@pytest.mark.slow
def test_a_program_ends_while_threads_are_parked(run_program):
    program = """
import time
from ftloader import DataLoader
loader = DataLoader(range(1000000), batch_size=2, num_workers="auto", worker_method="thread")
iterator = iter(loader)
while loader.statistics().num_workers > 1:
    next(iterator)
    time.sleep(0.01)
print("ends")
"""
    assert run_program(program) == (0, "ends\n", "")


def test_a_thread_that_cannot_start_while_all_others_are_parked_loses_no_batch(monkeypatch):
    parked, start_up = threading.Event(), WorkerContext.start_up

    def fail(context):
        if context._worker_id == 0:
            return start_up(context)
        assert parked.wait(60)
        raise MemoryError("planted")

    monkeypatch.setattr(WorkerContext, "start_up", fail)
    monkeypatch.setattr("ftloader.iterators.auto.usable_cpus", lambda: 1)  # begins with one thread
    iterator = iter(auto(Rows(400), 4, timeout=60))
    numbers = itertools.chain([2], itertools.repeat(1))
    monkeypatch.setattr(iterator._tuner, "due", 0.0)
    monkeypatch.setattr(iterator._tuner, "look", lambda totals: next(numbers))
    # the second thread is started, and the first one is told to park
    found = [next(iterator) for _ in range(2)]
    tasks, before = iterator._pool.tasks[0], None
    while before != (before := tasks.qsize()):  # a thread that is not parked takes them
        time.sleep(0.2)
    assert iterator._pool._parked == 1
    parked.set()
    with pytest.raises(MemoryError, match="planted"):
        while True:
            found.append(next(iterator))
    found += iterator
    assert torch.cat(found).tolist() == [*range(400)]
