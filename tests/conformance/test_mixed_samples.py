"""Samples that differ within an epoch or a batch: the value or error that torch gives.

A loader that prepares a batch's memory from earlier samples could be wrong here.
"""

import collections

import numpy as np
import pytest
import torch
import torch.utils.data

from ftloader import DataLoader
from tests.datasets import Stream

THREADS = {"num_workers": 2, "worker_method": "thread"}
Pair = collections.namedtuple("Pair", "a b")


class Next(Pair):
    """A pair whose constructor changes what it is given."""

    def __new__(cls, a, b):
        return super().__new__(cls, a + 1, b)


class OwnTensor(torch.Tensor):
    pass


def t(*shape, value=1, dtype=torch.float32):
    return torch.full(shape, value, dtype=dtype)


def n(*shape, value=1, dtype=np.float32):
    return np.full(shape, value, dtype=dtype)


# Most of them large enough that the loader has them copied straight into the batch's memory, where
# it can. Four samples each: two batches of four are made of any two of them, and each alone.
UNIFORM = {
    "float": [t(72, 64, value=v) for v in range(4)],
    "small": [t(2, 3, value=v) for v in range(4)],
    "other shape": [t(64, 72, value=v) for v in range(4)],
    "as many elements": [t(4608, value=v) for v in range(4)],
    "one dimension more": [t(1, 72, 64, value=v) for v in range(4)],
    "larger": [t(100, 130, value=v) for v in range(4)],
    "no elements": [t(0, 3) for _ in range(4)],
    "0-d": [t(value=v) for v in range(4)],
    "double": [t(72, 64, value=v, dtype=torch.float64) for v in range(4)],
    "half": [t(72, 64, value=v, dtype=torch.float16) for v in range(4)],
    "bool": [t(72, 64, value=v % 2, dtype=torch.bool) for v in range(4)],
    "int": [t(72, 64, value=v, dtype=torch.int64) for v in range(4)],
    "array": [n(72, 64, value=v) for v in range(4)],
    "small array": [n(2, 3, value=v) for v in range(4)],
    "int array": [n(72, 64, value=v, dtype=np.int64) for v in range(4)],
    "numpy scalars": [np.float32(v) for v in range(4)],
    "numbers": [0, 1, 2, 3],
    "floats": [0.5, 1.5, 2.5, 3.5],
    "bools": [True, False, True, True],
    "strings": list("abcd"),
    "bytes": [b"a", b"", b"c", b"d"],
    "none": [None] * 4,
    "dict": [{"a": t(4608, value=v), "b": v} for v in range(4)],
    "dict in another order": [{"b": v, "a": t(4608, value=v)} for v in range(4)],
    "dict with another key": [{"a": t(4608, value=v), "c": v} for v in range(4)],
    "dict with fewer keys": [{"a": t(4608, value=v)} for v in range(4)],
    "dict of other types": [{"a": v, "b": t(4608, value=v)} for v in range(4)],
    "ordered dict": [collections.OrderedDict(a=t(4608, value=v), b=v) for v in range(4)],
    "list": [[t(4608, value=v), v] for v in range(4)],
    "longer list": [[t(4608, value=v), v, v] for v in range(4)],
    "empty list": [[] for _ in range(4)],
    "tuple": [(t(4608, value=v), v) for v in range(4)],
    "namedtuple": [Pair(t(4608, value=v), v) for v in range(4)],
    "strides": [t(64, 72, value=v).T for v in range(4)],
    "grad": [t(72, 64, value=v).requires_grad_() for v in range(4)],
    "subclass": [t(72, 64, value=v).as_subclass(OwnTensor) for v in range(4)],
    "sparse": [t(72, 64, value=v).to_sparse() for v in range(4)],
}


@pytest.mark.parametrize("second", UNIFORM)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow(cases=2)
def test_two_kinds_of_batches_in_turn(second, assert_like_torch):
    """A B A B for every A: each batch uniform, the epoch is not."""
    rows = []
    for first in UNIFORM.values():
        rows += [*first[:2], *UNIFORM[second][:2], *first[2:], *UNIFORM[second][2:]]
    assert_like_torch(rows, THREADS, batch_size=2)


# Not "strides": a batch that begins with a string is handed on as it is, and a sample that was
# copied by then has the strides of a copy.
@pytest.mark.parametrize("second", [name for name in UNIFORM if name != "strides"])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow(cases=2)
def test_two_kinds_in_one_batch(second, assert_like_torch):
    """The odd one first, in the middle, and last."""
    batches = []
    b = UNIFORM[second]
    for name, a in UNIFORM.items():
        if name == "strides":
            continue
        batches += [[b[0], a[0], a[1]], [a[0], b[1], a[2]], [a[0], a[1], b[3]]]
    assert_like_torch([row for batch in batches for row in batch], THREADS, batch_size=3)


# Only what torch's worker processes can send, with or without a worker's shared memory.
SENT = [name for name in UNIFORM if name not in ("grad", "subclass", "strides")]


@pytest.mark.slow(cases=1)
def test_every_batch_has_another_shape(workers, assert_like_torch):
    rows = [
        t(height, 1000 * width, value=height)
        for height in range(1, 7)
        for width in range(1, 7)
        for _ in range(3)
    ]
    assert_like_torch(rows, workers, batch_size=3)


def test_ragged(workers, outcomes):
    rows = [t(5000 * (size % 5 + 1)) for size in range(20)]
    torchs = outcomes(torch.utils.data.DataLoader(rows, batch_size=4))
    ours = outcomes(DataLoader(rows, batch_size=4, **workers))
    assert (
        [type(outcome) for outcome in ours]
        == [RuntimeError] * 5
        == [type(outcome) for outcome in torchs]
    )
    for a, b in zip(ours, torchs, strict=True):
        # torch's collate says something else in a worker process
        # if the first sample is the largest.
        assert str(b) in str(a) or "resize storage that is not resizable" in str(a)


@pytest.mark.slow(cases=2)
def test_ragged_inside_of_containers(workers, assert_like_torch):
    rows = [{"image": t(72, 64), "boxes": t(i % 3, 4), "id": i} for i in range(9)]
    ours = assert_like_torch(rows, workers, batch_size=3)
    assert all(isinstance(outcome, RuntimeError) for outcome in ours)
    assert_like_torch(rows, workers, batch_size=3, collate_fn=list)
    assert_like_torch(rows, workers, batch_size=1)


def test_a_type_that_changes_its_values_meets_another_dtype(light_workers, assert_like_torch):
    dtypes = [torch.float32, torch.float32, torch.float64, torch.float32]
    rows = [Next(t(300, 300, value=v, dtype=dtype), v) for v, dtype in enumerate(dtypes)]
    assert_like_torch(rows, light_workers, batch_size=4)


def test_samples_that_alias_each_other(light_workers, assert_like_torch):
    base = torch.arange(10_000.0)
    assert_like_torch([base[i : i + 8000] for i in range(32)], light_workers, batch_size=5)
    same = t(8000)
    assert_like_torch([same] * 12, light_workers, batch_size=5)


def test_iterable_style(light_workers, assert_like_torch):
    stream = Stream(30, lambda i: UNIFORM[SENT[i % len(SENT)]][0])
    assert_like_torch(
        stream, {**light_workers, "num_workers": min(1, light_workers["num_workers"])}, batch_size=1
    )


def test_numbers_that_do_not_fit_the_type_of_the_first(light_workers, assert_like_torch):
    rows = [1, 2.5, True, 4, 2**40, 1, 0.5, 7, -1, 2**62, 2**64, 3, np.float32(3), 4, np.int8(5), 6]
    assert_like_torch(rows, light_workers, batch_size=4)
    assert_like_torch([(i, row) for i, row in enumerate(rows)], light_workers, batch_size=4)
