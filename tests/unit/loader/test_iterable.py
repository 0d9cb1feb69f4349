"""Iterable-style datasets: sharing the work, ending, order."""

import math
import sys
import threading

import pytest
import torch
from torch.utils.data import IterableDataset, get_worker_info

from ftloader import DataLoader

pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore:This DataLoader will create")]


class Range(IterableDataset):
    """torch's documented example: a range that shards itself, or is sharded from outside."""

    def __init__(self, start, end, shards_itself):
        self.start, self.end, self.shards_itself = start, end, shards_itself

    def __iter__(self):
        start, end = self.start, self.end
        info = get_worker_info()
        if self.shards_itself and info is not None:
            per_worker = math.ceil((self.end - self.start) / info.num_workers)
            start = self.start + info.id * per_worker
            end = min(start + per_worker, self.end)
        return iter(range(start, end))


def shard(worker_id):
    """The documented worker_init_fn: changes the worker's own copy of the dataset."""
    info = get_worker_info()
    dataset = info.dataset
    per_worker = math.ceil((dataset.end - dataset.start) / info.num_workers)
    dataset.start += worker_id * per_worker
    dataset.end = min(dataset.start + per_worker, dataset.end)


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_sharding_in_iter(worker_method, workers):
    dl = DataLoader(Range(3, 30, True), batch_size=4, num_workers=workers, worker_method=worker_method)
    assert sorted(torch.cat(list(dl)).tolist()) == [*range(3, 30)]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_sharding_in_worker_init_fn_leaves_the_original_alone(worker_method, workers):
    dataset = Range(3, 30, False)
    dl = DataLoader(dataset, batch_size=4, num_workers=workers, worker_method=worker_method, worker_init_fn=shard)
    for _ in range(2):
        assert sorted(torch.cat(list(dl)).tolist()) == [*range(3, 30)]
    assert (dataset.start, dataset.end) == (3, 30)


def test_without_sharding_every_worker_gives_everything(worker_method):
    dl = DataLoader(Range(0, 6, False), batch_size=2, num_workers=2, worker_method=worker_method)
    assert [b.tolist() for b in dl] == [[0, 1], [0, 1], [2, 3], [2, 3], [4, 5], [4, 5]]


@pytest.mark.parametrize("drop_last", [False, True])
def test_last_batches_and_no_auto_collation(worker_method, drop_last):
    dl = DataLoader(Range(0, 14, True), batch_size=3, num_workers=2, worker_method=worker_method, drop_last=drop_last)
    rest = [] if drop_last else [[6], [13]]
    assert [b.tolist() for b in dl] == [[0, 1, 2], [7, 8, 9], [3, 4, 5], [10, 11, 12], *rest]
    dl = DataLoader(Range(0, 4, True), batch_size=None, num_workers=2, worker_method=worker_method)
    assert list(dl) == [0, 2, 1, 3]


class Uneven(IterableDataset):
    """Worker w gives w * 7 samples."""

    def __iter__(self):
        worker_id = get_worker_info().id
        return iter([worker_id] * worker_id * 7)


@pytest.mark.parametrize("in_order", [True, False])
def test_workers_that_end_at_different_times(worker_method, in_order):
    dl = DataLoader(Uneven(), batch_size=2, num_workers=4, worker_method=worker_method, in_order=in_order)
    assert sorted(torch.cat(list(dl)).tolist()) == [1] * 7 + [2] * 14 + [3] * 21


def test_order_does_not_depend_on_who_is_faster():
    def order():
        dl = DataLoader(Uneven(), batch_size=2, num_workers=4, worker_method="thread")
        return [b.tolist() for b in dl]

    first = order()
    assert all(order() == first for _ in range(10))


def test_in_order_false_goes_on_while_one_worker_is_slow():
    release = threading.Event()

    class OneSlow(IterableDataset):
        def __iter__(self):
            if get_worker_info().id == 0:
                assert release.wait(30)
            yield from [get_worker_info().id] * 20

    dl = DataLoader(OneSlow(), batch_size=None, num_workers=2, worker_method="thread", in_order=False)
    iterator = iter(dl)
    assert [next(iterator) for _ in range(20)] == [1] * 20
    release.set()
    assert list(iterator) == [0] * 20


def test_warning_when_more_comes_than_len_said(worker_method):
    class Short(Range):
        def __len__(self):
            return 4

    dl = DataLoader(Short(0, 4, False), batch_size=None, num_workers=2, worker_method=worker_method)
    assert len(dl) == 4
    with pytest.warns(UserWarning, match="Length of IterableDataset .* was reported to be 4"):
        assert len(list(dl)) == 8


class Counted(IterableDataset):
    """Notes that it was copied."""

    copies = 0

    def __init__(self):
        self.size = 4

    def __iter__(self):
        return iter(range(self.size))

    def __setstate__(self, state):
        type(self).copies += 1
        vars(self).update(state)


@pytest.mark.skipif(sys._is_gil_enabled(), reason="with the GIL auto takes processes")
@pytest.mark.thread_unsafe(reason="counts in the class")
def test_auto_copies_an_iterable_style_dataset_once_for_each_worker():
    Counted.copies = 0
    for epochs in (1, 2):
        assert len(list(DataLoader(Counted(), num_workers=2))) == 8
        assert Counted.copies == 2 * epochs
