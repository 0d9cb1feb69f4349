"""Datasets, samplers and batches on which lookups raise: as with torch's class, nothing but the
loop's own use counts.

Reports: pytorch/pytorch#67831 (a batch with the key "values"), Lightning-AI/pytorch-lightning#14429
(a dead proxy in a dataset), pytorch/pytorch#3281 (the time that a walk through a batch takes).
"""

import sys
import weakref

import pytest
import torch
from torch.utils.data import DataLoader as Torchs
from torch.utils.data import IterableDataset

from ftloader import DataLoader
from ftloader.batch.size import nbytes_of
from tests.datasets import Rows

WORKERS = {
    "none": {},
    "threads": {"num_workers": 2, "worker_method": "thread"},
    "auto": {"num_workers": "auto"},
}
each_kind_of_workers = pytest.mark.parametrize("workers", WORKERS.values(), ids=WORKERS)


class Lazy:
    """An object that has no class yet, as the proxies of werkzeug
    and Django outside of their context.
    """

    @property
    def __class__(self):
        raise LookupError("not set up")


class Raises:
    """An object on which every lookup raises, of a dunder too."""

    def __getattribute__(self, name):
        raise KeyError(name)

    def __bool__(self):
        raise OverflowError("neither true nor false")

    def __eq__(self, other):
        raise OverflowError("not comparable")

    __hash__ = object.__hash__


class Owner:
    pass


def dead_proxy():
    return weakref.proxy(Owner())


class Numbers:
    """A dataset of the numbers 0 to 5, or a sampler that yields them, with further attributes."""

    def __init__(self, **more):
        self.__dict__.update(more)

    def __len__(self):
        return 6

    def __getitem__(self, index):
        return index

    def __iter__(self):
        return iter(range(6))


class Lacking(Numbers):
    """Looks attributes up in a dict, and so raises KeyError for those that are not there."""

    def __getattr__(self, name):
        return self.__dict__["data"][name]


class Batches(Lacking):
    def __len__(self):
        return 2

    def __iter__(self):
        return iter([[0, 1, 2], [3, 4, 5]])


class Stream(IterableDataset):
    def __init__(self):
        self.data = {}

    def __getattr__(self, name):
        return self.__dict__["data"][name]

    def __iter__(self):
        return iter(range(6))


class Named(list):
    """A list whose elements are taken by name."""

    def __getitem__(self, name):
        raise KeyError(name)


class AttributeDict(dict):
    """The recipe "AttrDict": its keys are attributes, too."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.__dict__ = self


ODD = {"a dead proxy": dead_proxy, "a lazy object": Lazy, "an object that raises": Raises}


@each_kind_of_workers
@pytest.mark.parametrize("place", ["attribute", "list", "object"])
@pytest.mark.parametrize("odd", ODD)
def test_what_a_dataset_refers_to_is_not_asked(odd, place, workers):
    value = ODD[odd]()
    held = {"attribute": value, "list": [value], "object": Numbers(inner=value)}[place]
    batches = DataLoader(Numbers(held=held), batch_size=3, **workers)
    assert [batch.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]


@each_kind_of_workers
@pytest.mark.parametrize("odd", ODD)
def test_what_a_sampler_refers_to_is_not_asked(odd, workers):
    batches = DataLoader(Numbers(), batch_size=3, sampler=Numbers(held=ODD[odd]()), **workers)
    iterator = iter(batches)
    assert next(iterator).tolist() == [0, 1, 2]
    state = batches.state_dict()
    batches.load_state_dict(state)
    assert [batch.tolist() for batch in batches] == [[3, 4, 5]]


@each_kind_of_workers
@pytest.mark.parametrize(
    "arguments",
    [
        {"dataset": Numbers(), "batch_size": 3, "sampler": Lacking(data={})},
        {"dataset": Numbers(), "batch_sampler": Batches(data={})},
        {"dataset": Stream(), "batch_size": 3},
    ],
    ids=["sampler", "batch sampler", "iterable"],
)
def test_optional_methods_whose_lookup_raises_are_not_there(arguments, workers):
    if isinstance(arguments["dataset"], Stream) and workers:
        workers = {"num_workers": 1}  # a process: threads need copies, and it cannot be copied
    batches = DataLoader(**arguments, **workers)
    assert [batch.tolist() for batch in batches] == [[0, 1, 2], [3, 4, 5]]
    batches.load_state_dict(batches.state_dict())


BATCHES = {
    "with the key values": lambda samples: AttributeDict(
        values=torch.tensor(samples), copy=torch.tensor(0)
    ),
    "whose elements are taken by name": lambda samples: Named(samples),
    "of lazy objects": lambda samples: [Lazy() for _ in samples],
    "of objects that raise": lambda samples: {"some": [Raises() for _ in samples]},
    "that raises": lambda samples: Raises(),
}


@each_kind_of_workers
@pytest.mark.parametrize("kind", BATCHES)
def test_a_batch_is_handed_over_and_not_asked(kind, workers):
    if "num_workers" in workers and workers["num_workers"] == "auto":
        workers = {**workers, "worker_method": "thread"}  # these batches cannot be pickled
    batches = list(DataLoader(Numbers(), batch_size=3, collate_fn=BATCHES[kind], **workers))
    assert [type(batch) for batch in batches] == [type(BATCHES[kind]([0]))] * 2


NESTED = {
    "lists": lambda size: [[(i, float(i)) for i in range(20)] for _ in range(size)],
    "dicts": lambda size: [{f"key {n}": torch.zeros(3) for n in range(12)} for _ in range(size)],
    "strings": lambda size: ["text"] * size,
    "objects": lambda size: [Owner() for _ in range(size)],
}


@pytest.mark.slow(cases=2)
@pytest.mark.parametrize("kind", NESTED)
def test_next_makes_no_more_calls_for_a_larger_batch(kind):
    """The calls in the loop's thread, for a batch that a worker thread has built."""

    def calls(size):
        batches = DataLoader(
            Rows(3, lambda _: NESTED[kind](size)),
            batch_size=None,
            num_workers=1,
            worker_method="thread",
        )
        iterator, count = iter(batches), 0
        next(iterator)
        while not iterator._dispatcher.prefetch.next_is_built:
            iterator._dispatcher.receive()

        def counted(*_):
            nonlocal count
            count += 1

        sys.setprofile(counted)
        try:
            next(iterator)
        finally:
            sys.setprofile(None)
        return count

    assert calls(2000) <= calls(2) + 20  # what the worker does meanwhile may differ


@pytest.mark.parametrize("kind", NESTED)
def test_a_large_batch_is_measured_in_part(kind, monkeypatch):
    looked_at = 0

    def counted(frame, event, argument):
        nonlocal looked_at
        looked_at += event == "c_call"

    batch = NESTED[kind](2000)
    sys.setprofile(counted)
    try:
        nbytes_of(batch)
    finally:
        sys.setprofile(None)
    assert looked_at < 2000


def test_torchs_class_takes_these_batches_too():
    """Else they would be no cases."""
    for collate in BATCHES.values():
        assert len(list(Torchs(Numbers(), batch_size=3, collate_fn=collate))) == 2
