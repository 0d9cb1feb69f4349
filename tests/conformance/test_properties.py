"""Random sizes, workers, prefetch, order and batching:
the epoch is that of torch's DataLoader without workers.

`--hypothesis-profile thorough` tries many more cases.
"""

import collections
import itertools
import math

import numpy as np
import pytest
import torch
import torch.utils.data
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import IterableDataset

from ftloader import DataLoader
from tests.conformance.conftest import assert_same_outcomes
from tests.datasets import Batches, Rows, Whole, my_share

pytestmark = [
    pytest.mark.timeout(1200)  # of the thorough profile
]

Point = collections.namedtuple("Point", "x y")
KINDS = {
    "int": lambda i: i,
    "small": lambda i: torch.tensor([i, -i]),
    "large": lambda i: torch.arange(5000.0) + i,
    "array": lambda i: np.full((80, 64), i, dtype=np.float64),
    "image and label": lambda i: (np.full((64, 96, 3), i % 256, dtype=np.uint8), i),
    "dict": lambda i: {"a": torch.full((4200,), i), "b": f"name {i}", "c": [i / 3, (i, b"x")]},
    "namedtuple": lambda i: Point(torch.full((4200,), i), i),
    "changing": lambda i: torch.arange(4096.0 + i // 4) if i % 8 < 4 else torch.tensor(float(i)),
}


def rows(size, kind, bad=(), cls=Rows):
    """Return samples of a kind; those in *bad* fail."""

    def make(index):
        if index in bad:
            raise ValueError(f"sample {index}")
        return KINDS[kind](index)

    return cls(size, make)


class Stream(IterableDataset):
    """Stream of ``sizes[0]``, ``sizes[1]``, ... samples, dealt out to the workers in turn."""

    def __init__(self, sizes, kind):
        self.sizes, self.kind = sizes, kind

    def __iter__(self):
        worker, workers = my_share()
        for n in range(worker, len(self.sizes), workers):
            yield from (KINDS[self.kind](1000 * n + i) for i in range(self.sizes[n]))


@st.composite
def batchings(draw, size):
    """Draw arguments of DataLoader that say which samples make up which batch."""
    kind = draw(st.sampled_from(["batches", "single", "sampler", "batch_sampler", "shuffle"]))
    if kind == "single":
        return {"batch_size": None, "shuffle": size > 0 and draw(st.booleans())}
    if kind == "batch_sampler":
        assume(size)
        batches = st.lists(st.lists(st.integers(0, size - 1), min_size=1, max_size=5), max_size=12)
        return {"batch_sampler": draw(batches)}
    arguments = {"batch_size": draw(st.integers(1, size + 2)), "drop_last": draw(st.booleans())}
    if kind == "sampler":
        assume(size)
        arguments["sampler"] = draw(st.lists(st.integers(-size, size - 1), max_size=30))
    elif kind == "shuffle":
        assume(size)
        arguments["shuffle"] = True
    return arguments


def engines():
    """Return a strategy of arguments of DataLoader that must not change the batches."""
    return st.fixed_dictionaries(
        {
            "num_workers": st.integers(1, 5),
            "prefetch_factor": st.integers(1, 4),
            "persistent_workers": st.booleans(),
            "worker_method": st.just("thread"),
        }
    )


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(data=st.data())
def test_map_style(data, outcomes, assert_same):
    size = data.draw(st.integers(0, 40), "size")
    kind = data.draw(st.sampled_from(sorted(KINDS)), "kind")
    bad = data.draw(st.frozensets(st.integers(0, 60), max_size=2), "bad")
    cls = data.draw(st.sampled_from([Rows, Batches]), "class")
    batching = data.draw(batchings(size), "batching")
    engine = data.draw(engines(), "engine")
    if batching.get("shuffle"):
        # which draw one base seed for all epochs, in torch too
        engine["persistent_workers"] = False
    seed = data.draw(st.integers(0, 2**32), "seed")
    # At least one if the order is drawn: workers draw it before they are asked, in torch too.
    take = st.none() | st.integers(int(batching.get("shuffle", False)), 10)
    take = data.draw(st.lists(take, min_size=1, max_size=3), "batches taken of each epoch")

    def epochs(cls_, **more):
        torch.manual_seed(seed)
        dl = cls_(rows(size, kind, bad, cls), **batching, **more)
        found = []
        for number in take:
            iterator = iter(dl)
            found.append(outcomes(iterator) if number is None else [])
            for _ in range(number or 0):
                # which has ended after an exception, too
                found[-1] += outcomes(itertools.islice(iterator, 1))
            del iterator
        return len(dl), found

    length, ours = epochs(DataLoader, **engine)
    expected_length, torchs = epochs(torch.utils.data.DataLoader)
    assert length == expected_length
    for a, b in zip(ours, torchs, strict=True):
        compare(a, b, assert_same)


def compare(ours, torchs, assert_same):
    assert len(ours) == len(torchs)
    for a, b in zip(ours, torchs, strict=True):
        if isinstance(b, Exception):
            assert type(a) is type(b) and str(b) == str(a)
        else:
            assert_same(a, b)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    size=st.integers(0, 40),
    batch_size=st.integers(1, 9),
    engine=engines(),
    kind=st.sampled_from(["int", "small", "large", "image and label"]),
    epochs=st.integers(1, 2),
)
def test_in_order_false_gives_the_same_batches_in_some_order(
    size, batch_size, engine, kind, epochs, assert_same
):
    dl = DataLoader(rows(size, kind), batch_size=batch_size, in_order=False, **engine)
    expected = list(torch.utils.data.DataLoader(rows(size, kind), batch_size=batch_size))

    def first(batch):
        return int((batch[1] if isinstance(batch, list) else batch).flatten()[0])

    for _ in range(epochs):
        found = sorted(dl, key=first)
        assert len(found) == len(expected) == math.ceil(size / batch_size)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.lists(st.integers(0, 9), max_size=6),
    batch_size=st.none() | st.integers(1, 6),
    engine=engines(),
    kind=st.sampled_from(["int", "small", "large", "dict"]),
    drop_last=st.booleans(),
)
def test_iterable_style(sizes, batch_size, engine, kind, drop_last, assert_same):
    """Workers take turns, and those whose share has ended are left out."""
    arguments = {"batch_size": batch_size} | ({"drop_last": drop_last} if batch_size else {})
    number = engine["num_workers"]
    shares = []
    for worker in range(number):
        samples = [
            KINDS[kind](1000 * n + i)
            for n in range(worker, len(sizes), number)
            for i in range(sizes[n])
        ]
        shares.append(list(torch.utils.data.DataLoader(Whole(samples), **arguments)))
    expected = [
        share[n] for n in range(max(map(len, shares))) for share in shares if n < len(share)
    ]
    dl = DataLoader(Stream(sizes, kind), **arguments, **engine)
    for _ in range(2):
        found = list(dl)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert_same(a, b)


@pytest.mark.slow
@settings(max_examples=5, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_processes_too(data, outcomes):
    """Few cases: each starts processes."""
    size = data.draw(st.integers(0, 30), "size")
    batching = data.draw(batchings(size), "batching")
    workers = data.draw(st.integers(1, 2), "workers")
    dataset = rows(size, "dict", data.draw(st.frozensets(st.integers(0, 30), max_size=2)))
    found = []
    for cls, more in (
        (DataLoader, {"num_workers": workers, "worker_method": "process"}),
        (torch.utils.data.DataLoader, {}),
    ):
        torch.manual_seed(1)
        found.append(outcomes(cls(dataset, **batching, **more)))
    assert_same_outcomes(*found)
