"""Batches that all workers build at once, into memory that is used again."""

import threading

import numpy as np
import pytest
import torch

from ftloader import DataLoader, empty_sample
from ftloader.batch.layout import Layout
from ftloader.batch.memory import BufferPool
from tests.datasets import Rows
from tests.in_threads import in_threads


def image(index):
    """Return an array of 160 kB filled with the index."""
    return np.full((200, 200), index, np.float32)


def threads(dataset, **arguments):
    return DataLoader(dataset, worker_method="thread", **{"batch_size": 4, "num_workers": 2, **arguments})


def values(batch):
    return batch[:, 0, 0].tolist()


def test_all_workers_build_a_batch_together():
    """One batch of two samples; each sample waits for the other to be loaded too."""
    both = threading.Barrier(2, timeout=60)

    def make(index):
        both.wait()
        return image(index)

    assert [values(b) for b in threads(Rows(2, make), batch_size=2)] == [[0, 1]]


def test_memory_is_used_again_when_the_consumer_has_dropped_it():
    addresses = [batch.data_ptr() for batch in threads(Rows(80, image))]
    assert len(addresses) == 20
    # Dispatched (2 a worker), held by the loop, and those that the loop and a worker are about to drop.
    assert len(set(addresses)) <= 7


class Filler:
    """Stands for the batch that fills a buffer."""


def test_memory_shared_with_another_process_is_given_up():
    pool, filler = BufferPool(4), Filler()
    buffer = pool.take(4096, filler)
    buffer.storage.share_memory_()  # as sending a tensor through a queue of torch.multiprocessing does
    buffer.release()
    assert pool.take(4096, filler) is not buffer


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


def test_a_pool_shared_by_threads_gives_nothing_away_twice():
    pool = BufferPool(8)
    wrong = []

    def use(mark):
        filler = Filler()
        for _ in range(300):
            buffer = pool.take(4096, filler)
            tensor = torch.empty(0, dtype=torch.uint8).set_(buffer.storage)
            tensor.fill_(mark)
            buffer.release()
            if not bool((tensor == mark).all()):
                wrong.append(mark)
            del tensor

    in_threads(use, range(4))
    assert wrong == []


def test_empty_sample_is_the_samples_slot():
    in_place = []

    def make(index):
        array = empty_sample((200, 200), np.float32)
        array[:] = index
        in_place.append(array.base is not None)
        return array

    assert [values(b) for b in threads(Rows(20, make))] == [list(range(n, n + 4)) for n in range(0, 20, 4)]
    assert sum(in_place) >= 16  # all but those of the first batch, which shows what samples look like


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

    assert [values(b) for b in threads(Rows(12, make))] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


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
    """Its slot is the slot of the first value of its layout, into which another value may be written."""

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
        found.append([b[0, 0].item() for b in DataLoader(Rows(2, inner), batch_size=None, collate_fn=lambda x: x)])
        return image(index)

    assert [values(b) for b in threads(Rows(20, make))] == [list(range(n, n + 4)) for n in range(0, 20, 4)]
    assert found == [[1000.0, 1001.0]] * 20


def test_empty_sample_outside_a_loader():
    array = empty_sample((3, 2))
    assert array.shape == (3, 2) and array.dtype == np.uint8 and array.flags.owndata


def test_a_skipped_sample_leaves_no_gap():
    """Nor where the sample is a single array; batch/test_on_error.py has samples of two parts."""

    def make(index):
        if index % 3 == 0:
            raise ValueError(index)
        return image(index)

    loader = threads(Rows(9, make), on_error="skip", batch_size=3)
    with pytest.warns(UserWarning, match="3 of this epoch's samples"):
        assert [values(b) for b in loader] == [[1, 2], [4, 5], [7, 8]]
    assert [skipped.index for skipped in loader.skipped.samples] == [0, 3, 6]


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


def test_layout_tells_structures_apart():
    array = np.zeros((100, 100), np.float32)
    layout = Layout.of({"image": array, "label": 1})
    assert layout.flatten({"image": array + 1, "label": 2})[1] == 2
    for other in (
        {"label": 1, "image": array},
        {"image": array},
        {"image": array.astype(np.float64), "label": 1},
        {"image": array[::-1], "label": 1},
        {"image": torch.from_numpy(array), "label": 1},
        [array, 1],
    ):
        assert layout.flatten(other) is None
    assert Layout.of((1, "name")) is None


def test_a_pool_remembers_the_storages_of_all_leaves():
    pool = BufferPool(3)
    fillers = [Filler() for _ in range(12)]
    for _ in range(2):
        taken = [pool.take(1000, filler, per_batch=4) for filler in fillers]
        assert len({id(buffer) for buffer in taken}) == len(pool._buffers) == 12
        for buffer in taken:
            buffer.release()
