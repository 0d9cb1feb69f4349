"""Workers as a user sees them: number, order, start, info,
persistence, prefetch, pinning, time-out.
"""

import threading
import warnings

import pytest
import torch
import torch.utils.data
from torch.utils.data import Dataset, IterableDataset
from torch.utils.data import get_worker_info as imported_at_the_top

import ftloader
from ftloader import DataLoader
from tests.datasets import Gated, Rows, Shares, Whole
from tests.worker_threads import PREFIX

LOCAL = threading.local()  # of a worker: thread or process


# Start and info


def remember(worker_id):
    LOCAL.started = getattr(LOCAL, "started", 0) + 1
    LOCAL.worker_id = worker_id
    info = imported_at_the_top()
    LOCAL.seed = info.seed
    assert (info.id, info.num_workers) == (worker_id, 2)
    assert isinstance(info.dataset, Dataset)


def check_info(sample):
    assert imported_at_the_top().num_workers == 2
    return sample


class Remembered(Rows):
    def __getitem__(self, index):
        info = torch.utils.data.get_worker_info()
        assert info is imported_at_the_top() is ftloader.get_worker_info()
        assert info is torch.utils.data._utils.worker.get_worker_info()
        assert (LOCAL.worker_id, LOCAL.seed) == (info.id, info.seed)
        return index, info.id, LOCAL.started, info.seed


@pytest.mark.parametrize("persistent", [False, True])
def test_init_function_runs_once_in_each_worker_before_its_samples(persistent, real_workers):
    generator = torch.Generator().manual_seed(31)
    base = (
        torch.empty((), dtype=torch.int64)
        .random_(generator=torch.Generator().manual_seed(31))
        .item()
    )
    dl = DataLoader(
        Remembered(),
        batch_size=None,
        collate_fn=check_info,
        worker_init_fn=remember,
        persistent_workers=persistent,
        generator=generator,
        **real_workers,
    )
    for epoch in range(2):
        found = list(dl)
        assert [index for index, *_ in found] == [*range(20)]
        assert {started for _, _, started, _ in found} == {1}
        if epoch == 0:
            assert all(seed == base + worker_id for _, worker_id, _, seed in found)


def test_init_function_is_not_for_zero_workers():
    called = []
    assert len(list(DataLoader(Rows(), worker_init_fn=called.append))) == 20
    assert called == []
    assert imported_at_the_top() is None


class InfoStream(IterableDataset):
    def __iter__(self):
        info = imported_at_the_top()
        yield (-1, 0) if info is None else (info.id, info.num_workers)


def test_info_in_iterable_style(workers):
    number = workers["num_workers"]
    expected = [(i, number) for i in range(number)] or [(-1, 0)]
    assert [
        tuple(pair) for pair in DataLoader(InfoStream(), batch_size=None, **workers)
    ] == expected
    assert imported_at_the_top() is None


def shard_by_attribute(worker_id):
    """Change the worker's copy of the dataset, in the way that torch documents."""
    dataset = imported_at_the_top().dataset
    assert dataset.samples == [*range(10)]
    dataset.samples = dataset.samples[worker_id::2]


def test_sharding_by_changing_the_workers_dataset(real_workers):
    dataset = Whole([*range(10)])
    dl = DataLoader(dataset, batch_size=2, worker_init_fn=shard_by_attribute, **real_workers)
    for _ in range(2):
        assert [batch.tolist() for batch in dl] == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]
    assert dataset.samples == [*range(10)]


# Number and order


class Uneven(Shares):
    """Shares of ten and three. Worker 1 waits until worker 0 has been read to its end."""

    def __init__(self, gate):
        super().__init__(10, 3)
        self.gate = gate

    def __iter__(self):
        if imported_at_the_top().id == 1:
            assert self.gate.wait(60)
        return super().__iter__()


def test_in_order_false_of_iterable_style_does_not_wait_for_a_slow_worker():
    gate = torch.multiprocessing.Event()  # which copies of the dataset share
    dl = DataLoader(
        Uneven(gate), batch_size=None, num_workers=2, worker_method="thread", in_order=False
    )
    with iter(dl) as iterator:
        assert [next(iterator) for _ in range(10)] == [[0, i] for i in range(10)]
        gate.set()
        assert list(iterator) == [[1, i] for i in range(3)]


def test_iterable_style_takes_turns_until_the_shorter_shares_end(real_workers):
    found = list(DataLoader(Shares(5, 2), batch_size=None, **real_workers))
    assert found == [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [0, 3], [0, 4]]


def test_iterable_style_out_of_order_with_an_empty_share(real_workers):
    arguments = real_workers | {"num_workers": 4, "in_order": False}
    found = [
        sample
        for batch in DataLoader(Shares(0, 7, 14, 21), 2, collate_fn=list, **arguments)
        for sample in batch
    ]
    assert sorted(found) == [[worker, i] for worker in range(4) for i in range(7 * worker)]


def test_an_iterator_stays_at_its_end(workers):
    iterator = iter(DataLoader(Shares(5, 5), batch_size=4, drop_last=True, **workers))
    assert len(list(iterator)) == max(1, workers["num_workers"])
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


# Prefetch


@pytest.mark.parametrize(("prefetch", "in_order"), [(None, True), (1, True), (3, True), (3, False)])
def test_prefetch_factor_bounds_what_is_drawn_ahead(prefetch, in_order, real_workers):
    drawn = []
    sampler = (drawn.append(i) or i for i in range(30))
    arguments = {"sampler": sampler, "prefetch_factor": prefetch, "in_order": in_order}
    iterator = iter(DataLoader(Rows(30), batch_size=None, **arguments, **real_workers))
    ahead = 2 * (prefetch or 2)
    assert len(drawn) == ahead
    for taken in range(1, 31):
        assert next(iterator) == taken - 1 or not in_order
        assert len(drawn) == min(ahead + taken, 30)


# Persistence


def test_persistent_iterator_is_the_same_object_and_starts_again(real_workers):
    dl = DataLoader(Rows(), batch_size=6, persistent_workers=True, **real_workers)
    first = iter(dl)
    next(first)
    second = iter(dl)
    assert second is first
    assert torch.cat(list(second)).tolist() == [*range(20)]
    with pytest.raises(StopIteration):
        next(second)


def test_persistent_workers_see_changes_of_a_shared_dataset():
    rows = Rows()
    dl = DataLoader(
        rows, batch_size=5, num_workers=2, worker_method="thread", persistent_workers=True
    )
    assert len(list(dl)) == 4
    rows.size = 5
    assert torch.cat(list(dl)).tolist() == [*range(5)]


# Several at once


def test_interleaved_iterators_of_one_loader(workers):
    dl = DataLoader(Rows(), batch_size=3, **workers)
    iterators = [iter(dl) for _ in range(3)]
    found = [[], [], []]
    for n in range(7):
        for iterator, mine in zip(iterators, found, strict=True):
            mine += next(iterator).tolist()
        if n == 3:  # one is left early
            iterators[1], found[1] = iter([torch.arange(1)] * 10), []
    assert found[0] == found[2] == [*range(20)]


class Inner(Dataset):
    """Dataset whose samples each need an epoch of another loader."""

    def __init__(self, **arguments):
        self.arguments = arguments

    def __len__(self):
        return 4

    def __getitem__(self, index):
        before = imported_at_the_top()
        total = sum(
            int(batch.sum()) for batch in DataLoader(Rows(), batch_size=6, **self.arguments)
        )
        assert imported_at_the_top() is before
        return total + index


@pytest.mark.parametrize(
    "inner",
    [{"num_workers": 0}, {"num_workers": 2, "worker_method": "thread"}],
    ids=["serial", "thread"],
)
def test_nested(inner, workers):
    assert torch.cat(list(DataLoader(Inner(**inner), **workers))).tolist() == [190, 191, 192, 193]


@pytest.mark.thread_unsafe(reason="forks")
def test_nested_processes_are_refused_as_torch_refuses_them():
    """Worker processes are daemonic: they may not have children,
    but they may have threads (above).
    """
    dl = DataLoader(
        Inner(num_workers=1, worker_method="process"), num_workers=1, worker_method="process"
    )
    with pytest.raises(AssertionError, match="daemonic processes are not allowed to have children"):
        list(dl)


# Pinning


class Pinnable:
    """Batch of a user-defined type."""

    def __init__(self, samples):
        self.samples = torch.tensor(samples)
        self.pins, self.pinned_in = 0, ""

    def pin_memory(self):
        self.samples = self.samples.pin_memory()
        self.pins += 1
        self.pinned_in = threading.current_thread().name
        return self


@pytest.mark.thread_unsafe(reason="records warnings")
@pytest.mark.parametrize(
    "collate_fn", [None, Pinnable, lambda samples: {"a": [Pinnable(samples), "text"], "b": None}]
)
def test_pin_memory_does_what_torchs_does(collate_fn, workers):
    """Without an accelerator: a warning and nothing else."""
    found = []
    for cls, more in ((DataLoader, workers), (torch.utils.data.DataLoader, {})):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            batches = list(
                cls(Rows(), batch_size=6, pin_memory=True, collate_fn=collate_fn, **more)
            )
        parts = [batch["a"][0] if isinstance(batch, dict) else batch for batch in batches]
        if torch.accelerator.is_available() and more.get("worker_method") == "thread":
            assert all(
                part.pinned_in.startswith(PREFIX) for part in parts if isinstance(part, Pinnable)
            )
        tensors = [part.samples if isinstance(part, Pinnable) else part for part in parts]
        assert torch.cat(tensors).tolist() == [*range(20)]
        pinned = (
            [tensor.is_pinned() for tensor in tensors] if torch.accelerator.is_available() else None
        )
        said = {str(w.message) for w in caught if "pin_memory" in str(w.message)}
        found.append((pinned, [getattr(part, "pins", None) for part in parts], said))
    assert found[0] == found[1]
    assert found[0][1][0] == (None if collate_fn is None else int(torch.accelerator.is_available()))


# Time-out


@pytest.mark.parametrize("in_order", [True, False])
def test_timeout(in_order, real_workers):
    """Sample 5 is late."""
    dataset = Gated(torch.multiprocessing.Event(), 8, at=5)
    arguments = {"timeout": 1, "prefetch_factor": 1, "in_order": in_order} | real_workers
    iterator = iter(DataLoader(dataset, batch_size=None, **arguments))

    def patient():
        """Return the next batch, also on a slow machine, where other batches may be late."""
        while True:
            try:
                return next(iterator)
            except RuntimeError as error:
                assert "timed out" in str(error)

    before = 5 if in_order else 7  # the other worker goes on
    first = [patient() for _ in range(before)]
    with pytest.raises(RuntimeError, match="^DataLoader timed out after 1 seconds$"):
        next(iterator)
    dataset.gate.set()
    rest = [patient() for _ in range(8 - before)]  # the batch was late, not lost
    assert first + rest == [*range(8)] if in_order else sorted(first + rest) == [*range(8)]
    with pytest.raises(StopIteration):
        next(iterator)


def test_no_timeout_where_nothing_is_late(workers):
    assert torch.cat(
        list(DataLoader(Rows(), timeout=60 * bool(workers["num_workers"]), **workers))
    ).shape == (20,)
