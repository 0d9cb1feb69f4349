"""Iterable-style loaders stopped after any batch: resumed, they give the remaining batches."""

import itertools
import pickle

import pytest
import torch
from torch.utils.data import IterableDataset
from torch.utils.data.datapipes.iter import IterableWrapper

from ftloader import DataLoader
from ftloader.rng.sample import sample_rng
from tests.datasets import FailingStream, Whole, my_share, seeded
from tests.unit.loader.state import stateful_datasets
from tests.unit.loader.state.resuming import EACH_WAY, ONE_STREAM, WAYS, contents, interrupt, resume

TWO_WORKERS = ["threads", "processes"]
PAIRS = [pair for ways in (ONE_STREAM, TWO_WORKERS) for pair in itertools.product(ways, repeat=2)]
WITH_PROCESSES = [
    ("process", "serial"),
    ("thread", "process"),
    ("processes", "threads"),
    ("threads", "processes"),
]
"""Of the pairs with processes those in which each way saves and loads once."""


def share():
    """Return this worker's number and its number of samples, which is uneven."""
    worker_id, workers = my_share()
    return worker_id, (14, 5, 9)[worker_id] if workers > 1 else 21


def sample(worker_id, i):
    return 100 * worker_id + i, sample_rng().numpy.integers(1 << 30)


class Sharded(IterableDataset):
    """Stream without a state: a resumed pass skips what was given."""

    def __iter__(self):
        worker_id, size = share()
        return (sample(worker_id, i) for i in range(size))


class Resumable(Sharded):
    """Stream of the same samples, with a state of the dataset."""

    def __init__(self):
        self.i = 0
        self.begin = 0
        self.log = []

    def __iter__(self):
        worker_id, size = share()
        self.i, self.begin = self.begin, 0
        while self.i < size:
            self.i += 1
            self.log.append(self.i)
            yield sample(worker_id, self.i - 1)

    def state_dict(self):
        return {"i": self.i}

    def load_state_dict(self, state):
        self.begin = state["i"]


class Iterator(stateful_datasets.Iterator):
    def __init__(self):
        self.worker_id, self.size = share()
        self.i = 0

    def give(self):
        return sample(self.worker_id, self.i - 1)


class ResumableIterator(Sharded):
    """Stream of the same samples, with a state of the iterator."""

    def __iter__(self):
        return Iterator()


class Itself(Iterator, IterableDataset):
    """Stream of the same samples that is its own iterator."""

    def __iter__(self):
        self.worker_id, self.size = share()
        return self


DATASETS = [Sharded, Resumable, ResumableIterator, Itself]


def check(saving, loading, dataset, arguments):
    def make(way):
        return DataLoader(
            dataset(), generator=seeded(), **{"batch_size": 4} | arguments | WAYS[way]
        )

    whole = contents(make(saving))
    few = [3] if arguments else [3, len(whole)]
    for handed_over in few if "process" in saving + loading else range(len(whole) + 1):
        first, state, rest = interrupt(make(saving), handed_over)
        assert first + rest == whole
        assert resume(make(loading), state) == rest


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize(
    ("saving", "loading"),
    [*WITH_PROCESSES, *(pair for pair in PAIRS if "process" not in "".join(pair))],
)
@pytest.mark.slow(cases=2)
def test_the_remaining_batches_are_the_same(saving, loading, dataset):
    check(saving, loading, dataset, {})


@pytest.mark.parametrize(
    "arguments",
    [
        {"drop_last": True},
        {"batch_size": None},
        {"snapshot_every_n_steps": 2},
        {"snapshot_every_n_steps": 1000},
    ],
    ids=str,
)
@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize(("saving", "loading"), [("serial", "thread"), ("threads", "processes")])
@pytest.mark.slow(cases=1)
def test_with_other_arguments(saving, loading, dataset, arguments):
    check(saving, loading, dataset, arguments)


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.parametrize("dataset", [Sharded, Resumable, ResumableIterator])
@pytest.mark.slow
def test_the_next_epoch_is_whole(dataset, way):
    def make(seed):
        return DataLoader(dataset(), batch_size=4, generator=seeded(seed), **WAYS[way])

    loader = make(1)
    _, state, rest = interrupt(loader, 3)
    following = contents(loader)
    other = make(2)
    assert resume(other, state) == rest
    assert contents(other) == following
    at_end = loader.state_dict()
    if dataset is Resumable and way == "serial":  # whose state at the end says no more than that
        with pytest.raises(ValueError, match="gave no sample after the state was loaded"):
            resume(make(3), at_end)
    else:
        assert resume(make(3), at_end) == contents(loader)


def test_a_state_is_loaded_rather_than_gone_through():
    dataset = Resumable()
    _, state, rest = interrupt(DataLoader(Resumable(), 4, snapshot_every_n_steps=2), 3)
    assert state["workers"][0]["snapshot"]["states"] == {"dataset": {"i": 8}}
    resumed = resume(DataLoader(dataset, 4, snapshot_every_n_steps=2), state)
    assert [batch[0] for batch in resumed] == [batch[0] for batch in rest]
    assert dataset.log == list(range(9, 22))  # the third batch again, not the first two


@pytest.mark.parametrize("saved", [0, 1, 2])
@pytest.mark.parametrize("loading", [0, 1, 2, 3])
def test_another_number_of_workers_is_an_error_in_mid_epoch_only(saved, loading):
    def make(workers):
        return DataLoader(Sharded(), 4, num_workers=workers, worker_method="thread")

    loader = make(saved)
    at_begin = loader.state_dict()
    _, state, rest = interrupt(loader, 3)
    at_end = loader.state_dict()
    for between in (at_begin, at_end):
        other = make(loading)
        other.load_state_dict(between)
        assert len(contents(other)) == len(contents(make(loading)))
    other = make(loading)
    if max(1, saved) == max(1, loading):
        assert len(resume(other, state)) == len(rest)
        return
    with pytest.raises(
        ValueError, match=rf"with {max(1, saved)} worker.*this loader has {loading}"
    ):
        other.load_state_dict(state)
    assert len(contents(other)) == len(contents(make(loading)))


def test_the_number_of_workers_may_be_changed_later():
    _, state, _ = interrupt(DataLoader(Sharded(), 4), 3)
    loader = DataLoader(Sharded(), 4)
    loader.load_state_dict(state)
    loader.num_workers, loader.prefetch_factor, loader.worker_method = 2, 2, "thread"
    with pytest.raises(ValueError, match="this loader has 2"):
        iter(loader)
    loader.num_workers = 0
    assert len(contents(loader)) == 3  # the state is not used up by the failure


class Slow(IterableDataset):
    """Stream whose worker 0 waits after its first sample."""

    def __init__(self, event):
        self.event = event

    def __iter__(self):
        worker_id, _ = my_share()
        for i in range(6):
            if worker_id == 0 and i == 1:
                assert self.event.wait(60)
            yield 100 * worker_id + i


@pytest.mark.parametrize("saving", TWO_WORKERS)
@pytest.mark.parametrize("loading", TWO_WORKERS)
@pytest.mark.slow(cases=1)
def test_out_of_order(saving, loading):
    event = torch.multiprocessing.Event()  # which copies of the dataset share
    loader = DataLoader(Slow(event), None, in_order=False, **WAYS[saving])
    iterator = iter(loader)
    first = [next(iterator) for _ in range(5)]
    state = loader.state_dict()
    event.set()
    rest = list(iterator)
    assert sorted(first + rest) == [*range(6), *range(100, 106)]
    assert sum(worker["batches"] for worker in state["workers"]) == 5
    other = DataLoader(Slow(event), None, in_order=False, **WAYS[loading])
    assert sorted(resume(other, state)) == sorted(rest)


@pytest.mark.parametrize("way", ONE_STREAM)
def test_a_shorter_dataset_is_an_error(way):
    _, state, _ = interrupt(DataLoader(Whole(range(20)), 4, **WAYS[way]), 4)
    loader = DataLoader(Whole(range(7)), 4, **WAYS[way])
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="ended 2 batches before"):
        contents(loader)


@pytest.mark.parametrize("saved", [Resumable, ResumableIterator])
@pytest.mark.parametrize("way", ONE_STREAM)
def test_a_dataset_without_the_state_is_an_error(way, saved):
    _, state, _ = interrupt(DataLoader(saved(), 4), 3)
    loader = DataLoader(Sharded(), 4, **WAYS[way])
    with pytest.raises(ValueError, match="no state_dict"):  # of an iterator: once there is one
        loader.load_state_dict(state)
        contents(loader)


@pytest.mark.parametrize("saving", ONE_STREAM)
@pytest.mark.parametrize("loading", ONE_STREAM)
@pytest.mark.slow(cases=1)
def test_batches_that_raised(saving, loading):
    def make(way):
        return DataLoader(FailingStream(OSError, at=(5, 6)), 2, **WAYS[way])

    loader = make(saving)
    iterator = iter(loader)
    batches = [next(iterator), next(iterator)]
    for i in (5, 6):
        with pytest.raises(OSError, match=f"bad {i}"):
            next(iterator)
    other = make(loading)
    other.load_state_dict(loader.state_dict())
    with pytest.raises(OSError, match="bad 5"):  # tried again
        next(iter(other))
    batches.append(next(iterator))
    assert contents(batches) == [[0, 1], [2, 3], [7, 8]]
    assert resume(make(loading), loader.state_dict()) == contents(iterator)


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("saving", ONE_STREAM)
@pytest.mark.slow
def test_samples_left_out(saving):
    def make(way):
        return DataLoader(FailingStream(OSError, at=(5, 6)), 2, on_error="skip", **WAYS[way])

    for handed_over in range(10):
        _, state, rest = interrupt(make(saving), handed_over)
        for way in ONE_STREAM:
            assert resume(make(way), state) == rest


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("way", TWO_WORKERS)
@pytest.mark.slow
def test_samples_left_out_at_the_end_of_a_share(way):
    class Iterator:
        def __init__(self):
            self.worker_id, self.i = my_share()[0], -1

        def __next__(self):
            self.i += 1
            if self.worker_id == 1 and self.i in (2, 3):
                raise OSError(f"cannot read {self.i}")
            if self.i == (8, 4)[self.worker_id]:
                raise StopIteration
            return self.worker_id, self.i

    class Dataset(IterableDataset):
        def __iter__(self):
            return Iterator()

    def make():
        return DataLoader(Dataset(), 2, on_error="skip", **WAYS[way])

    assert len(contents(make())) == 5
    for handed_over in (4, 5):  # the second worker has said that it has ended
        _, state, rest = interrupt(make(), handed_over)
        assert resume(make(), state) == rest


def test_states_are_copies():
    class Mutable(Resumable):
        def __init__(self):
            super().__init__()
            self.state = {"i": 0}

        def state_dict(self):
            self.state["i"] = self.i
            return self.state

    for way in ONE_STREAM:
        loader = DataLoader(Mutable(), 4, **WAYS[way])
        iterator = iter(loader)
        next(iterator)
        state = loader.state_dict()
        before = pickle.dumps(state)
        rest = contents(iterator)
        assert pickle.dumps(state) == before
        assert len(resume(DataLoader(Mutable(), 4, **WAYS[way]), state)) == len(rest) == 5


WITHOUT_THREADS = [pair for pair in PAIRS if "thread" not in "".join(pair)]


@pytest.mark.parametrize(("saving", "loading"), WITHOUT_THREADS)
@pytest.mark.slow
def test_data_pipes(saving, loading):
    def make(way, seed):
        pipe = IterableWrapper(range(30)).shuffle(buffer_size=8).sharding_filter()
        return DataLoader(pipe, batch_size=4, shuffle=True, generator=seeded(seed), **WAYS[way])

    first, state, rest = interrupt(make(saving, 1), 3)
    assert sorted(sum(first + rest, [])) == list(range(30))
    assert resume(make(loading, 2), state) == rest
