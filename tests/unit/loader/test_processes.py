"""Worker processes are torch's own and fetch as threads do: the same samples, random numbers and shares."""

import functools
import gc
import multiprocessing
import os

import pytest
import torch
import torch.utils.data
from torch.utils.data import Dataset, IterableDataset, get_worker_info
from torch.utils.data._utils.pin_memory import pin_memory
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter

from ftloader import DataLoader
from ftloader.batch.errors import Skipped
from ftloader.batch.fetch import EMPTY, Fetched
from ftloader.iterators import processes as process_iterator
from ftloader.iterators.processes import ProcessDataLoaderIter
from ftloader.rng.sample import sample_rng
from ftloader.workers.process import WorkerFetcher
from tests.unit.loader.awkward import Failing, ReusedList

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.thread_unsafe(reason="forks"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # on few CPUs
]

CONTEXTS = [None, "spawn", "forkserver"]


class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        return torch.tensor([index, sample_rng().python.random()], dtype=torch.float64)


class Stream(IterableDataset):
    """The numbers below *stop* that are this worker's, with a draw each."""

    def __init__(self, stop=10):
        self.stop = stop

    def __iter__(self):
        info = get_worker_info()
        for i in range(info.id, self.stop, info.num_workers):
            yield torch.tensor([i, sample_rng().python.random()], dtype=torch.float64)


class Telling(Dataset):
    """What a worker knows about itself."""

    touched = None

    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        same = info.dataset is self
        return info.id, info.num_workers, info.seed, same, self.touched, os.getpid()


def touch(worker_id):
    get_worker_info().dataset.touched = f"by {worker_id}"


def minus(error, index):
    return -index


def seeded():
    return torch.Generator().manual_seed(5)


def test_is_torchs_iterator_and_torch_is_left_alone():
    create = _DatasetKind.create_fetcher
    dl = DataLoader(Telling(), num_workers=1, worker_method="process", worker_init_fn=touch)
    iterator = iter(dl)
    assert type(iterator) is ProcessDataLoaderIter
    assert isinstance(iterator, _MultiProcessingDataLoaderIter)
    list(iterator)
    assert dl.worker_init_fn is touch
    assert _DatasetKind.create_fetcher is create
    assert get_worker_info() is None


@pytest.mark.parametrize("context", CONTEXTS)
def test_a_worker_knows_itself(context):
    dl = DataLoader(
        Telling(),
        batch_size=None,
        num_workers=2,
        worker_method="process",
        multiprocessing_context=context,
        worker_init_fn=touch,
        generator=seeded(),
    )
    iterator = iter(dl)
    told = list(iterator)
    for batch, (worker_id, workers, seed, same, touched, pid) in enumerate(told):
        assert (worker_id, workers) == (batch % 2, 2)
        assert seed == iterator._base_seed + worker_id
        assert same and touched == f"by {worker_id}"
        assert pid != os.getpid()


@pytest.mark.parametrize("context", CONTEXTS)
def test_start_methods_give_the_same_numbers(context):
    expected = torch.cat(list(DataLoader(Numbers(), batch_size=5, generator=seeded())))
    dl = DataLoader(
        Numbers(),
        batch_size=5,
        num_workers=2,
        worker_method="process",
        multiprocessing_context=context,
        generator=seeded(),
        on_error=minus,
    )
    assert torch.equal(torch.cat(list(dl)), expected)


@pytest.mark.parametrize("dataset", [Numbers(), Stream()])
def test_epochs_of_persistent_workers_are_those_of_threads(dataset):
    def epochs(method):
        dl = DataLoader(
            dataset,
            batch_size=5,
            num_workers=2,
            worker_method=method,
            persistent_workers=True,
            generator=seeded(),
            shuffle=dataset.__class__ is Numbers or None,
        )
        result = [torch.cat(list(dl)) for _ in range(3)]
        dl._iterator = None
        return result

    processes, threads = epochs("process"), epochs("thread")
    for a, b in zip(processes, threads, strict=True):
        assert torch.equal(a, b)
    draws = [set(epoch[:, 1].tolist()) for epoch in processes]
    assert not draws[0] & draws[1] and not draws[1] & draws[2]


def test_an_epoch_left_early_does_not_disturb_the_next():
    dl = DataLoader(Numbers(), batch_size=2, num_workers=2, worker_method="process", persistent_workers=True)
    next(iter(dl))
    assert torch.cat(list(dl))[:, 0].tolist() == list(range(12))
    dl._iterator = None


def test_a_batch_without_remarks_is_sent_as_it_is():
    class Fetcher:
        def fetch(self, index, epoch):
            return index

    def sent(fetched):
        return WorkerFetcher(Fetcher(), 0).fetch((0, 0, fetched))

    batch = object()
    assert sent(Fetched(batch)) is batch
    for told in (Fetched(batch, (Skipped(1, "E"),)), Fetched(EMPTY), Fetched(batch, (), {"at": 3})):
        assert sent(told) is told


def test_batches_are_in_shared_memory_also_if_something_was_skipped():
    dl = DataLoader(FailingTensors(), batch_size=2, num_workers=1, worker_method="process", on_error="skip")
    with pytest.warns(UserWarning, match="left them out"):
        batches = list(dl)
    assert [len(batch) for batch in batches] == [2, 1, 2, 2]
    assert all(batch.is_shared() for batch in batches)


class FailingTensors(Failing):
    def __init__(self):
        super().__init__(ValueError("three"), size=8, at=3)

    def __getitem__(self, index):
        return torch.tensor(super().__getitem__(index))


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


def test_a_sampler_may_reuse_its_list():
    dl = DataLoader(torch.arange(40), batch_sampler=ReusedList(), num_workers=2, worker_method="process")
    assert torch.equal(torch.cat(list(dl)), torch.arange(40))


class Inner(Dataset):
    """Each sample is loaded by a torch loader over this very dataset."""

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
        Failing(ValueError("three"), size=8, at=3),
        batch_size=2,
        num_workers=workers,
        worker_method="process",
        on_error=lambda error, index: 33,
    )
    if multiprocessing.get_start_method() != "fork":
        pytest.skip("processes are not forked here")
    assert [batch.tolist() for batch in dl] == [[0, 1], [2, 33], [4, 5], [6, 7]]


def test_partials_as_init_functions_are_left_alone():
    dl = DataLoader(
        Telling(), batch_size=None, num_workers=1, worker_method="process", worker_init_fn=functools.partial(touch)
    )
    assert next(iter(dl))[4] == "by 0"


@pytest.mark.parametrize("persistent", [True, False])
def test_workers_of_an_iterator_in_a_reference_cycle_end_by_themselves(persistent):
    iterator = iter(DataLoader(Numbers(), num_workers=2, worker_method="process", persistent_workers=persistent))
    next(iterator)
    workers = iterator._workers
    iterator.myself = iterator
    del iterator
    gc.collect()
    # Not -SIGTERM: that is what torch sends to a worker that it could not reach.
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert not process_iterator.ProcessDataLoaderIter._queues_in_use
