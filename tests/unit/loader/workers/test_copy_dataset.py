"""``copy_dataset=True``: each worker thread has its own copy of a map-style dataset."""

import functools
import gc
import os
import threading
import time
import weakref

import numpy as np
import pytest
import torch
from torch.utils.data import get_worker_info

from ftloader import DataLoader
from ftloader.iterators.auto import Chosen
from tests.datasets import Rows
from tests.worker_threads import until_collected, worker_threads

THREADS = {"num_workers": 2, "worker_method": "thread", "copy_dataset": True}


class Cursor(Rows):
    """Rows that are read in two steps, as from a file: right only if no other thread reads between
    them.
    """

    position = -1

    def __getitem__(self, index):
        self.position = index
        time.sleep(0.001)
        return self.position


class LazyFile(Rows):
    """Rows of a file that the first sample opens."""

    file = None

    def __init__(self, path, size=20):
        super().__init__(size)
        self.path = path
        path.write_bytes(bytes(range(size)))

    def __getitem__(self, index):
        if self.file is None:
            self.file = self.path.open("rb", buffering=0)
        self.file.seek(index)
        time.sleep(0.001)
        return self.file.read(1)[0]

    def __getstate__(self):
        return self.__dict__ | {"file": None}


class Tracked(Rows):
    """Rows whose copies are noted, with the thread that made each."""

    made = []  # (weak reference to the copy, thread)
    under_way = 0
    most_at_once = 0

    def __setstate__(self, state):
        cls = type(self)
        cls.under_way += 1
        cls.most_at_once = max(cls.most_at_once, cls.under_way)
        time.sleep(0.01)
        cls.under_way -= 1
        self.__dict__.update(state)
        self.made.append((weakref.ref(self), threading.current_thread()))

    def __getitem__(self, index):
        time.sleep(0.001)
        copies = [copy() for copy, _ in self.made]
        number = [copy is self for copy in copies].index(True)
        assert self.made[number][1] is threading.current_thread()
        assert get_worker_info().dataset is self
        return number


@pytest.fixture
def tracked():
    """Return a class of its own for the test: its class attributes note the copies."""
    return type("Here", (Tracked,), {"made": [], "__reduce_ex__": _reduce})


def _reduce(self, protocol):
    return object.__new__, (type(self),), self.__dict__


def rows(loader):
    return [row for batch in loader for row in torch.as_tensor(batch).flatten().tolist()]


@pytest.mark.parametrize("workers", [2, Chosen(2)], ids=["2", "auto"])
def test_each_thread_makes_its_own_copy_one_after_the_other(tracked, workers):
    dataset = tracked(100)
    loader = DataLoader(dataset, batch_size=10, **THREADS | {"num_workers": workers})
    assert len(set(rows(loader))) == len(tracked.made) >= (2 if type(workers) is int else 1)
    assert tracked.most_at_once == 1
    assert len({thread for _, thread in tracked.made}) == len(tracked.made)


def test_threads_that_auto_adds_get_a_copy_and_keep_it(tracked, restless_tuner):
    arguments = THREADS | {"num_workers": Chosen(2), "max_workers": 6, "persistent_workers": True}
    loader = DataLoader(tracked(400), batch_size=4, **arguments)
    for _ in range(3):
        rows(loader)  # each sample checks that the thread that loads it has made its dataset
    used = max(number for _, number in loader.statistics(total=True).numbers)
    assert used <= len(tracked.made) <= 6


@pytest.mark.parametrize("persistent", [False, True])
def test_copies_live_as_long_as_their_workers(tracked, persistent):
    loader = DataLoader(tracked(20), **THREADS, persistent_workers=persistent)
    for _ in range(3):
        rows(loader)
    assert len(tracked.made) == (2 if persistent else 6)
    del loader
    assert until_collected(lambda: all(copy() is None for copy, _ in tracked.made))


@pytest.mark.parametrize("persistent", [False, True])
def test_changes_of_the_dataset_reach_the_copies_as_they_reach_processes(persistent):
    dataset = Rows(4, functools.partial(int.__add__, 0))
    loader = DataLoader(dataset, **THREADS, persistent_workers=persistent)
    iterator = iter(loader)
    dataset.make = functools.partial(int.__add__, 100)
    assert rows(iterator) == [0, 1, 2, 3]
    assert rows(loader) == ([0, 1, 2, 3] if persistent else [100, 101, 102, 103])


def test_datasets_with_a_position_are_right(tmp_path):
    for dataset in (Cursor(20), LazyFile(tmp_path / "rows")):
        assert rows(DataLoader(dataset, batch_size=2, **THREADS)) == list(range(20))
        assert "position" not in vars(dataset) and vars(dataset).get("file") is None


class Local(threading.local):
    pass


class Scaled(Rows):
    """Rows with a factor that belongs to the thread."""

    def __init__(self, size):
        super().__init__(size)
        self.local = Local()
        self.local.factor = 3

    def __getitem__(self, index):
        return index * self.local.factor


def test_a_thread_local_has_the_values_of_the_programs_thread():
    dataset = Scaled(6)
    assert rows(DataLoader(dataset, **THREADS)) == [0, 3, 6, 9, 12, 15]
    del dataset.local.factor
    with pytest.raises(AttributeError, match="factor"):
        rows(DataLoader(dataset, **THREADS))


def test_several_threads_build_one_batch():
    loader = DataLoader(Cursor(60), batch_size=60, **THREADS)
    assert rows(loader) == list(range(60))
    assert all(worker.samples for worker in loader.statistics().workers)


def test_functions_come_with_their_dataset():
    dataset, calls, infos = Rows(8), [], []

    def collate(samples):
        calls.append(threading.current_thread())
        return samples

    def start(worker_id, seen=infos):
        get_worker_info().dataset.make = functools.partial(int.__mul__, worker_id + 1)
        collate.worker_id = worker_id
        seen.append(get_worker_info().dataset)

    loader = DataLoader(dataset, collate_fn=collate, worker_init_fn=start, **THREADS)
    assert len(list(loader)) == 8
    assert dataset.make is None and not hasattr(collate, "worker_id")
    assert calls == []  # what a function closes over is copied with it
    assert len(set(map(id, infos))) == 2 and dataset not in infos  # a default value is not


def test_what_no_worker_can_change_is_shared():
    dataset, copies = Rows(4), []
    dataset.fixed, dataset.array = np.arange(4), np.arange(4)
    dataset.fixed.flags.writeable = False
    dataset.shared, dataset.tensor = torch.arange(4).share_memory_(), torch.arange(4)

    def start(worker_id, copies=copies):
        copies.append(get_worker_info().dataset)

    assert rows(DataLoader(dataset, worker_init_fn=start, **THREADS)) == [0, 1, 2, 3]
    for copy in copies:
        assert np.shares_memory(copy.fixed, dataset.fixed)
        assert not np.shares_memory(copy.array, dataset.array)
        assert copy.shared.data_ptr() == dataset.shared.data_ptr()
        assert copy.tensor.data_ptr() != dataset.tensor.data_ptr()


class Inner:
    def __init__(self, path):
        self.file = path.open("w")


def test_what_cannot_be_copied_is_named(tmp_path, gil_is_off, caplog):
    dataset = Rows(4)
    dataset.inner = Inner(tmp_path / "file")
    loader = DataLoader(dataset, **THREADS)
    remedies = "at their first use.*__getstate__.*worker_method='process'"
    with pytest.raises(TypeError, match=rf"Rows\.inner\.file cannot be copied.*{remedies}"):
        iter(loader)
    assert not worker_threads()
    loader.worker_method = "auto"
    caplog.set_level("INFO", "ftloader")
    assert rows(loader) == [0, 1, 2, 3]
    assert "takes processes: Rows.inner.file cannot be copied" in caplog.text


class Raises(Rows):
    def __getstate__(self):
        raise RuntimeError("no state")


class Recurses(Rows):
    def __getstate__(self):
        return self.__getstate__()


class ReturnsItself(Rows):
    def __getstate__(self):
        return self


class FailsTheSecondTime(Rows):
    left = 1

    def __setstate__(self, state):
        if not FailsTheSecondTime.left:
            raise OSError("no more licences")
        FailsTheSecondTime.left -= 1
        self.__dict__.update(state)


@pytest.mark.parametrize(
    ("dataset", "why"),
    [
        (Raises(4), "no state"),
        (Recurses(4), "RecursionError"),
        (ReturnsItself(4), "state is not a dictionary"),
        (FailsTheSecondTime(4), "no more licences"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("workers", [2, Chosen(2)], ids=["2", "auto"])
def test_copies_that_fail_are_an_error_of_iter(dataset, why, workers):
    FailsTheSecondTime.left = 1 if type(workers) is int else 0  # with the GIL "auto" starts one
    loader = DataLoader(dataset, **THREADS | {"num_workers": workers})
    for _ in range(2):
        with pytest.raises(TypeError, match=rf"{type(dataset).__name__} cannot be copied.*{why}"):
            iter(loader)
        assert until_collected()
    loader.copy_dataset = False
    assert rows(loader) == [0, 1, 2, 3]


def test_copies_larger_than_the_memory_are_refused_before_they_are_made():
    dataset = Rows(4)
    size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    dataset.array = np.empty(size // 2 + 1, np.uint8)  # the system gives no memory until it is used
    loader = DataLoader(dataset, **THREADS)
    with pytest.raises(MemoryError, match=r"2 copies of Rows have \d[\d,]+ bytes.*read-only"):
        iter(loader)
    dataset.array.flags.writeable = False
    assert rows(loader) == [0, 1, 2, 3]


def test_views_of_one_memory_count_once():
    dataset = Rows(4)
    dataset.expanded = torch.zeros(1).expand(2**50)
    dataset.broadcast = np.broadcast_to(np.zeros(1), 2**20)
    dataset.views = [array[row:] for array in [np.zeros(2**20)] for row in range(100)]
    dataset.sparse = torch.eye(3).to_sparse()
    loader = DataLoader(dataset, **THREADS)
    assert rows(loader) == [0, 1, 2, 3]
    assert 2**24 <= loader.statistics().copied < 2**25


def test_statistics_have_what_copies_took():
    dataset = Rows(4)
    dataset.array = np.zeros(1_000_000)
    loader = DataLoader(dataset, **THREADS)
    rows(loader)
    statistics = loader.statistics()
    assert statistics.copied >= 16_000_000 and statistics.copying > 0
    assert all(worker.copied >= 8_000_000 for worker in statistics.workers)


def test_memory_is_given_back():
    dataset = Rows(4)
    dataset.array = np.zeros(1000)
    references = []

    def start(worker_id, seen=references):
        seen.append(weakref.ref(get_worker_info().dataset.array))

    iterator = iter(DataLoader(dataset, worker_init_fn=start, **THREADS))
    rows(iterator)
    del iterator
    gc.collect()
    assert until_collected(lambda: all(reference() is None for reference in references))


@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_another_value_is_a_type_error(value):
    with pytest.raises(TypeError, match="copy_dataset must be True or False"):
        DataLoader(Rows(4), copy_dataset=value)
