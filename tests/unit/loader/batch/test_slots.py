"""Batches that all workers build at once, into memory that is used again."""

import threading

import numpy as np
import pytest
import torch

from ftloader import DataLoader, empty_sample
from ftloader.batch.memory import BufferPool
from tests.datasets import Rows


def image(index):
    """Return an array of 160 kB filled with the index."""
    return np.full((200, 200), index, np.float32)


def threads(dataset, **arguments):
    return DataLoader(
        dataset, worker_method="thread", **{"batch_size": 4, "num_workers": 2, **arguments}
    )


def values(batch):
    return batch[:, 0, 0].tolist()


def test_all_workers_build_a_batch_together():
    """One batch of two samples; each sample waits for the other to be loaded too."""
    both = threading.Barrier(2, timeout=60)

    def make(index):
        both.wait()
        return image(index)

    assert [values(b) for b in threads(Rows(2, make), batch_size=2)] == [[0, 1]]


class Filler:
    """Stands for the batch that fills a buffer."""


def test_a_buffer_is_taken_while_it_is_filled():
    pool, filler = BufferPool(4), Filler()
    buffer = pool.take(4096, filler)
    assert pool.take(4096, Filler()) is not buffer
    buffer.release()
    assert pool.take(4096, filler) is buffer
    del filler  # a batch that is given up half-way
    assert pool.take(4096, Filler()) is buffer


def test_the_pool_remembers_no_more_than_it_should():
    pool, filler = BufferPool(3), Filler()
    held = [pool.take(1000, filler) for _ in range(10)]
    assert len(pool._buffers) == 3 and len({buffer.storage.data_ptr() for buffer in held}) == 10
    del held, filler
    assert pool.take(2000, Filler()).storage.nbytes() == 2000
    assert len(pool._buffers) == 3


def test_empty_sample_is_the_samples_slot():
    in_place = []

    def make(index):
        array = empty_sample((200, 200), np.float32)
        array[:] = index
        in_place.append(array.base is not None)
        return array

    assert [values(b) for b in threads(Rows(20, make))] == [
        list(range(n, n + 4)) for n in range(0, 20, 4)
    ]
    # all but those of the first batch, which shows what samples look like
    assert sum(in_place) >= 16


@pytest.mark.parametrize("shape, dtype", [((200, 201), np.float32), ((200, 200), np.int32)])
def test_empty_sample_of_another_kind_is_an_array_of_its_own(shape, dtype):
    def make(index):
        other = empty_sample(shape, dtype)
        other[:] = -1
        return image(index)

    assert [values(b) for b in threads(Rows(8, make))] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_two_empty_samples_of_a_sample_are_two_arrays():
    def make(index):
        first, second = (empty_sample((200, 200), np.float32) for _ in range(2))
        first[:], second[:] = index, -1
        return first

    assert [values(b) for b in threads(Rows(12, make))] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
    ]


@pytest.mark.parametrize(
    "other",
    [
        lambda array: array,
        lambda array: array[::-1][::-1],
        lambda array: array[:2, :3],  # too small for a slot of its own
        lambda array: torch.from_numpy(array),
        lambda array: torch.from_numpy(array)[:2, :3],
    ],
    ids=["whole", "view", "corner", "tensor", "tensor's corner"],
)
@pytest.mark.parametrize("first", ["full", "negated", "itself"])
def test_empty_sample_that_comes_back_in_another_place(first, other):
    """Its slot is the slot of the first value of its layout,
    into which another value may be written.
    """

    def make(index):
        array = empty_sample((200, 200), np.float32)
        array[:] = index
        own = {"full": np.full_like(array, -index), "negated": -array, "itself": array}[first]
        return {"first": own, "other": other(array)}

    indices = list(range(12))
    batches = list(threads(Rows(12, make)))
    sign = 1 if first == "itself" else -1
    assert [n for b in batches for n in values(b["first"])] == [sign * n for n in indices]
    assert [n for b in batches for n in values(b["other"])] == indices
    assert all(torch.all(b["other"] == b["other"][:, :1, :1]) for b in batches)


def test_empty_sample_of_a_loader_inside_a_sample():
    """The inner loader's samples do not take the outer loader's slots."""

    def inner(index):
        array = empty_sample((200, 200), np.float32)
        array[:] = 1000 + index
        return array

    found = []

    def make(index):
        found.append(
            [
                b[0, 0].item()
                for b in DataLoader(Rows(2, inner), batch_size=None, collate_fn=lambda x: x)
            ]
        )
        return image(index)

    assert [values(b) for b in threads(Rows(20, make))] == [
        list(range(n, n + 4)) for n in range(0, 20, 4)
    ]
    assert found == [[1000.0, 1001.0]] * 20


def test_empty_sample_outside_a_loader():
    array = empty_sample((3, 2))
    assert array.shape == (3, 2) and array.dtype == np.uint8 and array.flags.owndata


def test_the_first_failing_sample_of_a_batch_is_raised():
    """The sample with the lower index is raised, although another fails before it."""
    later = threading.Event()

    def make(index):
        if index == 0:
            assert later.wait(60)
            raise ValueError("first")
        if index == 3:
            later.set()
            raise ValueError("later")
        return image(index)

    with pytest.raises(ValueError, match="first"):
        next(iter(threads(Rows(4, make), num_workers=4)))
