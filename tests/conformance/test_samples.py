"""Samples of every kind: they become the batches that torch makes of them, with any workers."""

import numpy as np
import pytest
import torch
import torch.utils.data
from torch.utils.data import Dataset, IterableDataset

from ftloader import DataLoader
from tests.conformance.kinds import EVERY, KINDS, REFUSED
from tests.datasets import Rows, Stream


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.slow(cases=60)
@pytest.mark.filterwarnings("ignore")  # torch's own, about prototypes
def test_default_collate(kind, light_workers, assert_like_torch):
    assert_like_torch(Rows(10, EVERY[kind]), light_workers, batch_size=4)


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow(cases=100)
def test_default_convert(kind, light_workers, outcomes, assert_same):
    """batch_size=None."""
    torchs = outcomes(torch.utils.data.DataLoader(Rows(10, EVERY[kind]), batch_size=None))
    ours = outcomes(DataLoader(Rows(10, EVERY[kind]), batch_size=None, **light_workers))
    assert [type(a) for a in ours] == [type(b) for b in torchs]
    for a, b in zip(ours, torchs, strict=True):
        if isinstance(b, Exception):
            assert str(b) in str(a)
        elif "meta" in kind:
            assert (a.device, a.shape) == (b.device, b.shape)
        else:
            assert_same(a, b)


class AllKinds(Dataset):
    """Dataset of all kinds: ``self[number of the kind, index]``."""

    def __init__(self, kinds):
        self.kinds = list(kinds.values())

    def __getitem__(self, index):
        kind, number = index
        return self.kinds[kind](number)

    def batches(self):
        return [
            [(kind, i) for i in range(size)] for kind in range(len(self.kinds)) for size in (4, 3)
        ]


@pytest.mark.slow(cases=1)
@pytest.mark.filterwarnings("ignore")
def test_a_batch_of_each_kind_in_one_epoch(workers, assert_like_torch):
    everything = AllKinds(KINDS | REFUSED)
    ours = assert_like_torch(everything, workers, batch_sampler=everything.batches())
    assert len(ours) == 2 * len(KINDS | REFUSED)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_can_be_pickled_to_the_same_size(kind, outcomes):
    """A batch holds its own memory and no more, as torch's:
    storages are neither larger nor shared.
    """

    def storages(batch):
        if isinstance(batch, torch.Tensor):
            return [(batch.storage_offset(), batch.untyped_storage().nbytes(), batch.is_shared())]
        if isinstance(batch, dict):
            batch = list(batch.values())
        return (
            [s for part in batch for s in storages(part)]
            if isinstance(batch, (list, tuple))
            else []
        )

    torchs = outcomes(torch.utils.data.DataLoader(Rows(10, KINDS[kind]), batch_size=4))
    ours = outcomes(
        DataLoader(Rows(10, KINDS[kind]), batch_size=4, num_workers=2, worker_method="thread")
    )
    assert [storages(batch) for batch in ours] == [storages(batch) for batch in torchs]


def keep(samples):
    return samples


class Batch:
    """Batch that a user's collate_fn makes."""

    def __init__(self, samples):
        self.samples = torch.stack(samples)

    def __eq__(self, other):
        return torch.equal(self.samples, other.samples)


def pair_of_batches(samples):
    return torch.utils.data.default_collate(samples), [torch.stack(samples).sum(0)]


@pytest.mark.parametrize(
    ("collate_fn", "batch_size"),
    [
        *((each, 4) for each in (keep, tuple, Batch, pair_of_batches, len)),
        (lambda sample: sample * 2, None),
    ],
)
def test_own_collate(collate_fn, batch_size, workers, assert_like_torch):
    rows = Rows(10, lambda i: torch.tensor([i]))
    assert_like_torch(rows, workers, batch_size=batch_size, collate_fn=collate_fn)


def test_own_collate_sees_the_very_samples():
    rows = [object() for _ in range(7)]
    dl = DataLoader(rows, batch_size=3, collate_fn=keep, num_workers=2, worker_method="thread")
    assert [sample for batch in dl for sample in batch] == rows


class Getitems(Dataset):
    def __len__(self):
        return 11

    def __getitem__(self, index):
        raise AssertionError("__getitems__ is to be used")

    def __getitems__(self, indices):
        assert isinstance(indices, list)
        return [(torch.tensor([i]), f"{i}") for i in indices]


class Tensors(Getitems):
    def __getitems__(self, indices):
        return torch.tensor(indices)


class Slices(Getitems):
    def __getitems__(self, indices):
        return [torch.tensor(i) for i in range(11)[indices]]


class WithoutGetitems(Rows):
    __getitems__ = None


@pytest.mark.parametrize(
    ("dataset", "arguments"),
    [
        (Getitems(), {"batch_size": 4}),
        (Getitems(), {"batch_sampler": [[3, 1], [], [5]]}),
        # It may give anything that the collation takes, and is given what the batch sampler yields.
        (Tensors(), {"batch_size": 4}),
        (Tensors(), {"batch_size": 4, "collate_fn": keep}),
        (Slices(), {"batch_sampler": [slice(0, 4), slice(4, 11)]}),
        (WithoutGetitems(10), {"batch_size": 4}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_getitems(dataset, arguments, workers, assert_like_torch):
    ours = assert_like_torch(dataset, workers, **arguments)
    assert len(ours) >= 2 and not any(isinstance(outcome, AssertionError) for outcome in ours)


@pytest.mark.parametrize(
    "dataset",
    [
        [],
        [1, 2, 3, 4, 5],
        (1.0, 2.0),
        "letters",
        range(9),
        torch.arange(10).reshape(5, 2),
        np.arange(7, dtype=np.float32),
        {0: "a", 1: "b", 2: "c"},
        torch.utils.data.TensorDataset(torch.arange(12).reshape(6, 2), torch.arange(6)),
        torch.utils.data.StackDataset(a=torch.arange(5), b=list("vwxyz")),
        torch.utils.data.ConcatDataset([range(4), range(10, 15)]),
        torch.utils.data.Subset(range(100), [5, 99, 0]),
    ],
    ids=lambda dataset: type(dataset).__name__,
)
def test_whatever_has_getitem_and_len(dataset, workers, assert_like_torch):
    assert_like_torch(dataset, workers, batch_size=2)


def test_indices_of_any_type(workers, assert_same):
    indices = ["a", (1, 2), 3.5, None, torch.tensor(4), np.int64(3), frozenset([1])]
    dl = DataLoader(Rows(), batch_size=None, sampler=indices, collate_fn=keep, **workers)
    assert_same(list(dl), indices)


@pytest.mark.parametrize("batches", [[], [[]], [[], [1], []], [[0, 0, 0]], [[9, 8, 7, 6, 5], [4]]])
def test_batches_of_any_size(batches, workers, assert_like_torch):
    """An empty batch is refused by collate, if at all."""
    assert_like_torch(Rows(10, lambda i: torch.tensor([i])), workers, batch_sampler=batches)
    assert_like_torch(Rows(10, lambda i: i), workers, batch_sampler=batches, collate_fn=keep)


def share(size):
    return Stream(size, lambda i: (torch.tensor([i]), {"i": i}))


def test_chain_and_nothing_at_all(workers, assert_same):
    chain = torch.utils.data.ChainDataset([share(5), share(0), share(4)])
    seen = [int(i) for _, labels in DataLoader(chain, batch_size=2, **workers) for i in labels["i"]]
    assert sorted(seen) == [0, 0, 1, 1, 2, 2, 3, 3, 4]
    assert list(DataLoader(share(0), batch_size=2, **workers)) == []


def test_an_iterable_dataset_that_is_its_own_iterator(workers):
    class Once(IterableDataset):
        def __init__(self):
            self.left = 6

        def __iter__(self):
            return self

        def __next__(self):
            if self.left == 0:
                raise StopIteration
            self.left -= 1
            return self.left

    seen = torch.cat(list(DataLoader(Once(), batch_size=2, **workers))).tolist()
    # Each worker has a copy of its own.
    assert sorted(seen) == sorted([*range(6)] * max(1, workers["num_workers"]))
