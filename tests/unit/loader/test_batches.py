"""Which batches come, in which order, and what they are made of."""

import collections
import threading

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, Dataset, SequentialSampler, default_collate

from ftloader import DataLoader
from tests.unit.loader.awkward import ReusedList

pytestmark = [
    pytest.mark.timeout(60),
    # More workers than CPUs is what some of these tests are about.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
]

WORKERS = [("thread", 0), ("thread", 1), ("thread", 2), ("thread", 4), ("process", 0), ("process", 2)]
Point = collections.namedtuple("Point", "x y")


class Squares(Dataset):
    """``self[i] == i * i``."""

    def __len__(self):
        return 50

    def __getitem__(self, index):
        return torch.tensor(index * index)


class Mixed(Dataset):
    """Samples of every type that default_collate knows."""

    def __len__(self):
        return 11

    def __getitem__(self, index):
        return {
            "tensor": torch.full((2, 3), float(index)),
            "array": np.full((4,), index, dtype=np.int16),
            "scalar": np.float32(index),
            "pair": (index, f"name {index}"),
            "point": Point(index / 3, b"bytes"),
            "list": [torch.tensor([index]), index % 2 == 0],
        }


class Batched(Squares):
    """Loads a batch at a time."""

    def __getitems__(self, indices):
        return [torch.tensor(i) for i in indices]


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            assert_same(x, y)
    else:
        assert a == b


@pytest.mark.parametrize(("method", "workers"), WORKERS)
@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 7},
        {"batch_size": 7, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 3, "sampler": [5, 1, 1, 49, 0, 7, 8]},
        {"batch_sampler": BatchSampler(SequentialSampler(range(20)), 6, False)},
        {"batch_size": 4, "shuffle": True},
    ],
    ids=lambda arguments: ",".join(arguments),
)
def test_same_sequence_as_torchs_serial_loader(method, workers, arguments):
    def seeded():
        return torch.Generator().manual_seed(3)

    serial = torch.utils.data.DataLoader(Squares(), generator=seeded(), **arguments)
    dl = DataLoader(Squares(), num_workers=workers, worker_method=method, generator=seeded(), **arguments)
    assert len(dl) == len(serial)
    expected = list(serial)
    assert len(expected) == len(dl)
    assert_same(list(dl), expected)


@pytest.mark.parametrize(("method", "workers"), WORKERS)
def test_default_collate_of_every_type(method, workers):
    expected = [default_collate([Mixed()[i] for i in part]) for part in ([*range(8)], [8, 9, 10])]
    dl = DataLoader(Mixed(), batch_size=8, num_workers=workers, worker_method=method)
    assert_same(list(dl), expected)


@pytest.mark.parametrize(("method", "workers"), WORKERS)
def test_getitems(method, workers):
    dl = DataLoader(Batched(), batch_size=6, num_workers=workers, worker_method=method)
    assert torch.equal(torch.cat(list(dl)), torch.arange(50))


@pytest.mark.parametrize("workers", [0, 1, 2, 4])
def test_a_sampler_may_reuse_its_list(workers):
    # Not with processes: torch pickles the list in another thread while the sampler
    # may be filling it again.
    dl = DataLoader(Batched(), batch_sampler=ReusedList(), num_workers=workers, worker_method="thread")
    assert torch.equal(torch.cat(list(dl)), torch.arange(40))


@pytest.mark.parametrize(("method", "workers"), WORKERS)
def test_empty_dataset_and_more_workers_than_batches(method, workers):
    assert list(DataLoader([], num_workers=workers, worker_method=method)) == []
    dl = DataLoader(torch.arange(3), batch_size=3, num_workers=workers, worker_method=method)
    assert_same(list(dl), [torch.arange(3)])


class Gated(Dataset):
    """Sample 0 is not finished before sample 1 has been sent: threads only."""

    def __init__(self):
        self.second_sent = threading.Event()

    def __len__(self):
        return 6

    def __getitem__(self, index):
        if index == 0:
            assert self.second_sent.wait(30)
        if index >= 2:  # by the worker that had sample 1
            self.second_sent.set()
        return index


def test_order_is_kept_when_batches_are_finished_out_of_order():
    dl = DataLoader(Gated(), batch_size=None, num_workers=2, worker_method="thread")
    assert list(dl) == [0, 1, 2, 3, 4, 5]


def test_in_order_false_hands_over_what_is_finished():
    dl = DataLoader(Gated(), batch_size=None, num_workers=2, worker_method="thread", in_order=False)
    values = list(dl)
    assert values[0] != 0
    assert sorted(values) == [0, 1, 2, 3, 4, 5]


def test_in_order_false_is_complete(worker_method):
    dl = DataLoader(Squares(), batch_size=3, num_workers=2, worker_method=worker_method, in_order=False)
    assert sorted(torch.cat(list(dl)).tolist()) == [i * i for i in range(50)]


def collate_by_hand(samples):
    return default_collate(samples), default_collate([np.ones(3) for _ in samples])


@pytest.mark.parametrize("collate_fn", [None, collate_by_hand])
def test_thread_batches_are_not_in_shared_memory(collate_fn):
    dl = DataLoader(Squares(), batch_size=5, num_workers=2, worker_method="thread", collate_fn=collate_fn)
    for batch in dl:
        for tensor in [batch] if collate_fn is None else batch:
            assert not tensor.is_shared()


def test_process_batches_still_are_in_shared_memory():
    batch = next(iter(DataLoader(Squares(), batch_size=5, num_workers=1, worker_method="process")))
    assert batch.is_shared()


def test_several_iterators_at_once(worker_method):
    dl = DataLoader(Squares(), batch_size=10, num_workers=2, worker_method=worker_method)
    pairs = list(zip(dl, dl, strict=True))
    assert len(pairs) == 5
    for a, b in pairs:
        assert torch.equal(a, b)


class Nested(Dataset):
    """Each sample is the sum over a loader of its own."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        inner = DataLoader(Squares(), batch_size=10, num_workers=2, worker_method="thread")
        return sum(int(batch.sum()) for batch in inner) + index


@pytest.mark.parametrize(("method", "workers"), WORKERS)
def test_nested_loaders(method, workers):
    total = sum(i * i for i in range(50))
    dl = DataLoader(Nested(), batch_size=None, num_workers=workers, worker_method=method)
    assert list(dl) == [total, total + 1, total + 2, total + 3]


def test_one_iterator_shared_by_threads_gives_each_batch_once():
    dl = DataLoader(torch.arange(400), batch_size=2, num_workers=2, worker_method="thread")
    iterator = iter(dl)
    seen = [[] for _ in range(4)]

    def consume(mine):
        mine.extend(batch.tolist() for batch in iterator)

    consumers = [threading.Thread(target=consume, args=(mine,)) for mine in seen]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    assert sorted(sum(seen, [])) == [[i, i + 1] for i in range(0, 400, 2)]
    assert all(mine == sorted(mine) for mine in seen)


@pytest.mark.parametrize("in_order", [True, False])
def test_prefetch_is_bounded(in_order):
    drawn = []

    class Counted:
        def __iter__(self):
            for i in range(50):
                drawn.append(i)
                yield i

        def __len__(self):
            return 50

    dl = DataLoader(
        Squares(),
        batch_size=None,
        sampler=Counted(),
        num_workers=2,
        prefetch_factor=3,
        worker_method="thread",
        in_order=in_order,
    )
    iterator = iter(dl)
    assert len(drawn) == 6
    for taken in range(1, 51):
        next(iterator)
        assert len(drawn) == min(6 + taken, 50)


def test_workers_work_ahead_up_to_the_bound_without_being_asked():
    loaded = []
    sixth = threading.Event()

    class Recorded(Squares):
        def __getitem__(self, index):
            loaded.append(index)
            if len(loaded) == 6:
                sixth.set()
            return index

    dl = DataLoader(Recorded(), batch_size=None, num_workers=2, prefetch_factor=3, worker_method="thread")
    with iter(dl) as iterator:
        assert sixth.wait(30)
        assert sorted(loaded) == [0, 1, 2, 3, 4, 5]
        assert next(iterator) == 0
