"""Iterators that are left before their end: no thread stays,
nothing warns, nothing waits too long.
"""

import contextlib
import gc
import sysconfig
import threading
import time
import weakref

import pytest
import torch

from ftloader import DataLoader
from ftloader.workers import exit as program_exit
from ftloader.workers.pool import WorkerPool
from tests.datasets import Failing, Rows
from tests.interruption import interrupted_at
from tests.worker_threads import PREFIX, until_collected, worker_threads

pytestmark = [
    pytest.mark.filterwarnings("error"),  # those of finalizers included
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]


class Endless(Rows):
    """A long dataset whose samples cost nothing."""

    def __init__(self, make=None):
        super().__init__(1_000_000, make)


def threads(dataset, **arguments):
    return DataLoader(dataset, worker_method="thread", **{"num_workers": 2} | arguments)


@pytest.fixture(params=[1, 4])
def endless(request):
    return threads(Endless(), batch_size=8, num_workers=request.param)


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_break_or_exception_in_the_loop(endless, error):
    with pytest.raises(error) if error else contextlib.nullcontext():
        for _batch in endless:
            assert len(worker_threads()) == endless.num_workers
            if error:
                raise error
            break
    assert worker_threads() == []


@pytest.mark.parametrize("batches", [0, 1])
def test_del(endless, batches):
    iterator = iter(endless)
    for _ in range(batches):
        next(iterator)
    del iterator
    assert worker_threads() == []


def test_interrupted_right_after_the_start(endless, monkeypatch):
    start = WorkerPool.start

    def interrupted(pool, number):
        start(pool, number)
        assert len(worker_threads()) == endless.num_workers
        raise KeyboardInterrupt

    monkeypatch.setattr(WorkerPool, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        iter(endless)
    assert until_collected()


def test_dropped_in_another_thread(endless):
    """The dropping thread does not wait for the workers; they end nevertheless."""
    box = [iter(endless)]
    next(box[0])
    dropper = threading.Thread(target=box.clear)
    dropper.start()
    dropper.join()
    assert until_collected()


def test_the_consumer_has_ended(endless):
    """The thread left one iterator to others, and one in its local storage."""
    box, local = [], threading.local()

    def consume():
        box.append(iter(endless))
        local.iterator = iter(endless)
        next(box[0]), next(local.iterator)

    consumer = threading.Thread(target=consume)
    consumer.start()
    consumer.join()
    next(box[0])
    box.clear()
    assert until_collected()


def test_collected_by_a_worker_of_another_loader():
    """A garbage collection can run in any thread; the worker in which it runs goes on."""

    def litter():
        cycle = [iter(threads(Endless()))]
        cycle.append(cycle)
        return weakref.ref(cycle[0])

    gc.disable()
    try:
        references = [litter() for _ in range(3)]
        iterator = iter(threads(Endless(lambda index: (gc.collect(), index)[1])))
        while any(reference() is not None for reference in references):
            next(iterator)
        next(iterator)
        del iterator
    finally:
        gc.enable()
    assert until_collected()


def test_reference_cycle(endless):
    holder = {"iterator": iter(endless)}
    holder["self"] = holder
    next(holder["iterator"])
    reference = weakref.ref(holder["iterator"])
    gc.collect()
    assert reference() is not None
    del holder
    assert until_collected(lambda: reference() is None)
    assert until_collected()


@pytest.mark.parametrize("through", ["dataset", "collate_fn"])
def test_reference_cycle_through_what_the_workers_use(through):
    class Owner(Endless):
        def collate(self, samples):
            return samples

    owner = Owner()
    dl = threads(
        owner if through == "dataset" else Endless(),
        persistent_workers=True,
        collate_fn=owner.collate if through == "collate_fn" else None,
    )
    owner.loader = dl
    owner.iterator = iter(dl)
    next(owner.iterator)
    reference = weakref.ref(owner)
    del owner, dl
    assert until_collected(lambda: reference() is None)
    assert until_collected()


def test_reference_cycle_through_an_exception_that_was_not_asked_for():
    failed = threading.Event()

    def fail(index):
        failed.set()
        return ValueError(index)

    owner = Failing(fail, at=range(2, 100))
    dl = threads(owner, persistent_workers=True)
    owner.iterator = iter(dl)
    next(owner.iterator)
    assert failed.wait(60)
    # Once the workers wait for more, all that they had to say has been said.
    assert next(owner.iterator).item() == 1
    with pytest.raises(ValueError):
        next(owner.iterator)
    reference = weakref.ref(owner)
    del owner, dl
    assert until_collected(lambda: reference() is None)
    assert until_collected()


def test_persistent_loader_is_dropped():
    dl = DataLoader(range(10), num_workers=2, worker_method="thread", persistent_workers=True)
    assert len(list(dl)) == 10
    assert len(worker_threads()) == 2
    del dl
    assert worker_threads() == []


def test_exhaustion_ends_the_workers():
    iterator = iter(DataLoader(range(10), num_workers=2, worker_method="thread"))
    assert len(list(iterator)) == 10
    assert worker_threads() == []


def test_close(endless):
    with iter(endless) as iterator:
        next(iterator)
    assert worker_threads() == []
    iterator.close()
    with pytest.raises(RuntimeError, match="was shut down"):
        next(iterator)


@pytest.mark.slow
def test_an_interruption_while_stopping(endless):
    """Interrupt at each line of stop(), as Ctrl-C may."""
    interrupted = -1
    whole = False
    while not whole:
        interrupted += 1
        iterator = iter(endless)
        with (
            contextlib.suppress(KeyboardInterrupt),
            interrupted_at(interrupted + 1, WorkerPool.stop),
        ):
            iterator.close()
            whole = True
        del iterator
        assert until_collected()
    assert interrupted > 5


def test_close_wakes_a_consumer_in_another_thread():
    waiting, release = threading.Event(), threading.Event()

    def block(index):
        waiting.set()
        assert release.wait(30)
        return index

    iterator = iter(threads(Endless(block), num_workers=1))
    errors = []

    def consume():
        try:
            next(iterator)
        except RuntimeError as error:
            errors.append(str(error))

    consumer = threading.Thread(target=consume)
    consumer.start()
    assert waiting.wait(30)
    closer = threading.Thread(target=iterator.close)
    closer.start()
    consumer.join(20)  # is woken although the worker is still blocked
    assert not consumer.is_alive()
    release.set()
    closer.join(20)
    assert len(errors) == 1 and "was shut down" in errors[0]


@pytest.mark.parametrize("kind", [list, torch.tensor])
def test_the_rest_of_the_batch_in_hand_is_skipped(kind, monkeypatch):
    """Also where one worker builds the batch, since the sampler does not yield lists."""
    loaded = []
    started, go_on = threading.Event(), threading.Event()

    def record(index):
        loaded.append(index)
        started.set()
        assert go_on.wait(30)
        return index

    batches = [kind(list(range(1000)))]
    iterator = iter(threads(Endless(record), batch_sampler=batches, num_workers=1))
    assert started.wait(30)
    join = WorkerPool.join
    # once it has been told to end
    monkeypatch.setattr(WorkerPool, "join", lambda pool: go_on.set() or join(pool))
    del iterator
    assert worker_threads() == []
    assert loaded == [0]


def test_the_last_batches_of_an_epoch_are_freed_while_persistent_workers_wait():
    gc.collect()
    gc.disable()
    try:
        dl = DataLoader(
            torch.arange(8),
            batch_size=1,
            num_workers=2,
            worker_method="thread",
            persistent_workers=True,
        )
        references = []
        for batch in dl:
            references.append(weakref.ref(batch))
        del batch
        deadline = time.monotonic() + 1500
        # Freed by the workers, which only need to run for a moment. The one that the
        # loop variable held to the last may wait for the next epoch where objects
        # belong to threads.
        tolerated = 1 if sysconfig.get_config_var("Py_GIL_DISABLED") else 0
        while sum(r() is not None for r in references) > tolerated:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        gc.enable()


def refuse(*args, **kwargs):
    raise FileNotFoundError("no usable disk")


@pytest.mark.parametrize("disk", [True, False])
def test_a_worker_that_does_not_return_is_named_with_its_stack(monkeypatch, disk):
    monkeypatch.setattr(program_exit, "JOIN_LIMIT", 0.2)
    if not disk:
        monkeypatch.setattr(program_exit.tempfile, "TemporaryFile", refuse)
    waiting, release = threading.Event(), threading.Event()

    def wait_for_a_server(index):
        waiting.set()
        assert release.wait(30)

    iterator = iter(threads(Endless(wait_for_a_server), num_workers=1))
    assert waiting.wait(30)
    try:
        with pytest.warns(RuntimeWarning, match=f"{PREFIX}-0 did not end") as caught:
            iterator.close()
        assert ("in wait_for_a_server" if disk else "stacks not available: no usable disk") in str(
            caught[0].message
        )
        assert "_bootstrap" not in str(caught[0].message) and caught[0].filename == __file__
    finally:
        release.set()


def test_dropped_by_its_own_worker():
    """The last reference is dropped in a worker thread, which must not wait for itself."""
    box = []
    filled, dropped = threading.Event(), threading.Event()

    def drop(index):
        if index == 5:
            assert filled.wait(30)
            box.clear()
            gc.collect()
            dropped.set()
        return index

    box.append(iter(threads(Endless(drop), batch_size=8)))
    filled.set()
    assert dropped.wait(30)
    assert until_collected()


def test_no_record_is_kept_of_pools_that_have_ended():
    before = set(program_exit._live)
    for _ in range(3):
        for _batch in threads(Endless()):
            break
        box = [iter(threads(Endless()))]
        dropper = threading.Thread(target=box.clear)
        dropper.start()
        dropper.join()
    assert program_exit._live <= before
    assert until_collected()


def test_a_thread_that_cannot_be_started(monkeypatch):
    start = threading.Thread.start

    def refuse_the_second(thread):
        if thread.name == f"{PREFIX}-1":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_second)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        iter(threads(Endless()))
    assert worker_threads() == []
