"""The iterator of worker processes: torch's own, whose workers fetch as threads do."""

import functools
import gc
import multiprocessing
import os

import pytest
import torch
import torch.utils.data
from torch.utils.data import Dataset, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter

from ftloader import DataLoader
from ftloader.batch.errors import Skipped
from ftloader.batch.fetch import EMPTY, Fetched
from ftloader.iterators import processes as process_iterator
from ftloader.rng.sample import sample_rng
from tests.datasets import Failing, Rows, seeded


def draw(index):
    return torch.tensor([index, sample_rng().python.random()], dtype=torch.float64)


class Telling(Rows):
    """Rows that say what their worker knows about itself."""

    touched = None

    def __getitem__(self, index):
        info = get_worker_info()
        told = info.id, info.num_workers, info.seed, info.dataset is self, self.touched, os.getpid()
        return draw(index), told


def touch(worker_id):
    get_worker_info().dataset.touched = f"by {worker_id}"


def minus(error, index):
    return -index


def test_is_torchs_iterator_and_torch_is_left_alone():
    create = _DatasetKind.create_fetcher
    dl = DataLoader(Telling(), num_workers=1, worker_method="process", worker_init_fn=touch)
    iterator = iter(dl)
    assert isinstance(iterator, _MultiProcessingDataLoaderIter)
    list(iterator)
    assert dl.worker_init_fn is touch
    assert _DatasetKind.create_fetcher is create
    assert get_worker_info() is None


@pytest.mark.parametrize(("context", "workers"), [(None, 2), ("spawn", 1), ("forkserver", 1)])
@pytest.mark.slow
def test_every_start_method_gives_the_same_numbers_and_worker_info(context, workers):
    dl = DataLoader(
        Telling(12),
        batch_size=None,
        num_workers=workers,
        worker_method="process",
        multiprocessing_context=context,
        worker_init_fn=touch,
        generator=seeded(),
        on_error=minus,
    )
    iterator = iter(dl)
    rows = list(iterator)
    expected = list(DataLoader(Rows(12, draw), batch_size=None, generator=seeded()))
    assert all(
        torch.equal(row, without_workers)
        for (row, _), without_workers in zip(rows, expected, strict=True)
    )
    for batch, (_, (worker_id, count, seed, same, touched, pid)) in enumerate(rows):
        assert (worker_id, count) == (batch % workers, workers)
        assert seed == iterator._base_seed + worker_id
        assert same and touched == f"by {worker_id}"
        assert pid != os.getpid()


def test_batches_are_in_shared_memory_also_if_something_was_skipped():
    dl = DataLoader(
        Failing(ValueError("three"), size=8, at=[3], make=torch.tensor),
        batch_size=2,
        num_workers=1,
        worker_method="process",
        on_error="skip",
    )
    with pytest.warns(UserWarning, match="left them out"):
        batches = list(dl)
    assert [len(batch) for batch in batches] == [2, 1, 2, 2]
    assert all(batch.is_shared() for batch in batches)


class Pinnable:
    pinned = 0

    def pin_memory(self):
        self.pinned += 1
        return self


def test_a_batch_with_remarks_is_pinned_as_one_without():
    # By torch's own function, which its pinning thread calls.
    pinned = pin_memory(Fetched({"a": [Pinnable()]}, (Skipped(1, "E"),)))
    assert type(pinned) is Fetched and pinned.skipped == ((1, "E"),)
    assert pinned.data["a"][0].pinned == 1
    assert pin_memory(Fetched(EMPTY)).data is EMPTY


class Inner(Dataset):
    """Dataset whose samples are loaded by a torch loader over the dataset itself."""

    def __init__(self, depth):
        self.depth = depth

    def __len__(self):
        return 2

    def __getitem__(self, index):
        if self.depth == 0:
            return index
        self.depth -= 1
        iterator = iter(torch.utils.data.DataLoader(self, batch_size=None))
        fetcher = type(iterator._dataset_fetcher).__module__
        self.depth += 1
        return fetcher


def test_torchs_loaders_in_a_worker_get_torchs_fetchers():
    dl = DataLoader(Inner(1), batch_size=None, num_workers=1, worker_method="process")
    assert list(dl) == ["torch.utils.data._utils.fetch"] * 2


@pytest.mark.parametrize("workers", [1, 2])
def test_on_error_that_cannot_be_pickled_needs_fork(workers):
    dl = DataLoader(
        Failing(ValueError("three"), size=8, at=[3]),
        batch_size=2,
        num_workers=workers,
        worker_method="process",
        on_error=lambda error, index: 33,
    )
    if multiprocessing.get_start_method() != "fork":
        pytest.skip("processes are not forked here")
    assert [batch.tolist() for batch in dl] == [[0, 1], [2, 33], [4, 5], [6, 7]]


def test_partials_as_init_functions_are_left_alone():
    arguments = {
        "num_workers": 1,
        "worker_method": "process",
        "worker_init_fn": functools.partial(touch),
    }
    _, told = next(iter(DataLoader(Telling(), batch_size=None, **arguments)))
    assert told[4] == "by 0"


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.slow(cases=1)
def test_workers_of_an_iterator_in_a_reference_cycle_end_by_themselves(persistent):
    iterator = iter(
        DataLoader(Rows(), num_workers=2, worker_method="process", persistent_workers=persistent)
    )
    next(iterator)
    workers = iterator._workers
    iterator.myself = iterator
    del iterator
    gc.collect()
    # Not -SIGTERM: that is what torch sends to a worker that it could not reach.
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert not process_iterator.ProcessDataLoaderIter._queues_in_use
