"""Proves that seeding in a block is undone and drawing is not, that "auto" warns once where worker threads use the
program's random generators, and that what other threads draw is not taken for theirs."""

import contextlib
import copy
import gc
import random
import re
import threading
import time
import warnings
import weakref

import numpy as np
import pytest
import torch

from ftloader import DataLoader, sample_rng
from ftloader.rng.program import _WAITS, GlobalDrawCheck, _places, preserved
from ftloader.rng.sample import GlobalRandomWarning
from tests.datasets import Rows, Stream

USES = {"random": random.random, "numpy.random": np.random.rand, "torch's default generator": lambda: torch.rand(1)}
SEEDS = {
    "random": lambda: random.seed(5),
    "numpy.random": lambda: np.random.seed(5),
    "torch's default generator": lambda: torch.manual_seed(5),
}


def reports_of(program):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        program()
    return [entry for entry in log if entry.category is GlobalRandomWarning]


def draw(count):
    return [random.random() for _ in range(count)], np.random.rand(count).tolist(), torch.rand(count).tolist()


def seed(number):
    random.seed(number), np.random.seed(number), torch.manual_seed(number)


@pytest.mark.parametrize("before", [0, 1, 700])
@pytest.mark.parametrize("count", [0, 1, 311, 312, 313, 623, 624, 625, 10_000])
def test_what_is_drawn_in_the_block_stays_drawn(before, count):
    seed(3)
    expected = draw(before), draw(count), draw(2)
    seed(3)
    found = [draw(before)]
    with preserved():
        found.append(draw(count))
    assert (*found, draw(2)) == expected


@pytest.mark.parametrize("count", [0, 1, 700])
def test_what_is_seeded_in_the_block_stands_where_it_stood(count):
    seed(3)
    expected = draw(count), draw(2)
    seed(3)
    found = draw(count)
    with preserved():
        seed(4)
        draw(3)
    assert (found, draw(2)) == expected


def test_each_generator_is_judged_for_itself():
    seed(3)
    expected = random.random(), np.random.rand(2).tolist(), torch.rand(3).tolist()
    seed(3)
    with preserved():
        np.random.seed(4)
        drawn = torch.rand(1).tolist()
    assert (random.random(), np.random.rand(2).tolist(), drawn + torch.rand(2).tolist()) == expected


class Other:
    """A thread that works when it is told to, and sleeps else."""

    def __init__(self, work):
        self._work = work
        self._begin, self._done = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        while self._begin.acquire() and self._work is not None:
            self._work()
            self._done.release()

    def work(self):
        self._begin.release()
        self._done.acquire()
        self.fall_asleep()

    def fall_asleep(self):
        place = None
        while place != (place := _places(()).get(self.thread.ident)):
            time.sleep(0.002)

    def __enter__(self):
        self.thread.start()
        self.fall_asleep()
        return self

    def __exit__(self, *exc_info):
        self._work = None
        self._begin.release()
        self.thread.join()


EVERY = " and ".join(USES), lambda: [use() for use in USES.values()]


@pytest.mark.parametrize(("name", "use"), [*USES.items(), *SEEDS.items(), EVERY])
def test_what_a_worker_uses_is_named_once(name, use):
    draws = GlobalDrawCheck()
    with Other(use) as worker, Other(None):
        for _ in range(_WAITS):  # on a busy machine a thread that is about to sleep may spoil some
            with draws.waiting([worker.thread]):
                worker.work()
    (entry,) = reports_of(lambda: (draws.report(), draws.report()))
    assert f"samples of this DataLoader use {name}. Its workers are threads" in str(entry.message)
    assert "sample_rng()" in str(entry.message) and "ftsafety.audit" in str(entry.message)
    assert entry.filename == __file__


def test_a_thread_that_a_worker_starts_belongs_to_it():
    def work():
        with Other(random.random) as helper:
            helper.work()

    draws = GlobalDrawCheck()
    with Other(work) as worker:
        for _ in range(_WAITS):
            with draws.waiting([worker.thread]):
                worker.work()
    assert len(reports_of(draws.report)) == 1


@pytest.mark.parametrize("stays", [True, False])
def test_what_another_thread_draws_is_not_taken_for_a_workers(stays):
    draws = GlobalDrawCheck()
    with Other(random.random) as worker, contextlib.ExitStack() as ends:
        other = ends.enter_context(Other(random.random))
        with draws.waiting([worker.thread]):
            other.work()
            if not stays:
                ends.close()
        # Nor if both draw, or the other does nothing but run.
        with Other(lambda: None) as third, draws.waiting([worker.thread]):
            worker.work()
            third.work()
    assert reports_of(draws.report) == []


def test_what_a_thread_draws_that_runs_all_the_time_is_not_a_workers():
    stop, runs = threading.Event(), threading.Event()

    def run():
        while not stop.is_set():
            random.randint(0, 9)
            runs.set()

    busy = threading.Thread(target=run)
    draws = GlobalDrawCheck()
    with Other(lambda: None) as worker:
        busy.start()
        runs.wait()
        for _ in range(16):
            with draws.waiting([worker.thread]):
                worker.work()
        stop.set()
        busy.join()
    assert reports_of(draws.report) == []


def test_only_the_first_waits_are_looked_at():
    draws = GlobalDrawCheck()
    with Other(random.random) as worker:
        for _ in range(100):
            with draws.waiting([worker.thread]):
                pass
        with draws.waiting([worker.thread]):
            worker.work()
    assert reports_of(draws.report) == []


# In the loader


def draw_for_some_time(index):
    """So that the consumer waits meanwhile."""
    for _ in range(50):
        time.sleep(0.001)
        random.random(), torch.rand(1)
    return index


def draw_from_the_samples_own(index):
    time.sleep(0.001)
    return sample_rng().python.random() + sample_rng().numpy.random()


DRAWS, OWN = Rows(4, draw_for_some_time), Rows(40, draw_from_the_samples_own)


def epochs_until_reported(loader):
    """How often it is reported. One epoch is enough but where the machine stands still or another thread is awake."""
    log = []
    for _ in range(50):
        log += reports_of(lambda: list(loader))
        if log:
            break
    return log + reports_of(lambda: [list(loader) for _ in range(3)])


@pytest.mark.parametrize("dataset", [DRAWS, Stream(2, draw_for_some_time)], ids=["map", "iterable"])
@pytest.mark.parametrize("persistent", [False, True])
def test_auto_warns_once_for_each_loader(dataset, persistent, gil_is_off):
    dl = DataLoader(dataset, num_workers=2, persistent_workers=persistent)
    dl._shared.global_draws._waits_left = 1000
    (entry,) = epochs_until_reported(dl)
    # A wait may begin or end between the two draws.
    assert re.search(r" use (random|torch's default generator|random and torch's default g\w+)\.", str(entry.message))
    assert entry.filename == __file__
    again = copy.copy(dl)
    again._shared.global_draws._waits_left = 1000
    assert len(epochs_until_reported(again)) == 1


def test_the_looks_keep_no_iterator_alive(gil_is_off):
    dl = DataLoader(OWN, num_workers=2)
    gc.disable()  # a reference cycle would last until a collection
    try:
        batches = iter(dl)
        found, iterator = list(batches), weakref.ref(batches)
        batch = weakref.ref(found[-1])
        del batches, found
        assert (iterator(), batch()) == (None, None)
    finally:
        gc.enable()


def test_as_an_error_it_costs_no_batch(gil_is_off):
    for _ in range(50):
        found, caught = [], 0
        with warnings.catch_warnings(), iter(DataLoader(DRAWS, num_workers=1)) as batches:
            warnings.simplefilter("error", GlobalRandomWarning)
            while True:
                try:
                    found.append(next(batches).item())
                except GlobalRandomWarning:
                    caught += 1
                except StopIteration:
                    break
        assert found == [0, 1, 2, 3]
        if caught:
            break
    assert caught == 1


@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [
        (DRAWS, {"worker_method": "thread"}),
        (DRAWS, {"worker_method": "process"}),
        (DRAWS, {"num_workers": 0}),
        (OWN, {}),
    ],
    ids=["thread", "process", "none", "auto, sample_rng"],
)
def test_no_warning(dataset, arguments, gil_is_off):
    # The consumer's own draws, and those of its sampler, are of no concern.
    dl = DataLoader(dataset, **{"num_workers": 2, "shuffle": True} | arguments)

    def program():
        for _ in range(3):
            for _ in dl:
                random.random(), np.random.rand(), torch.rand(1)

    assert reports_of(program) == []
