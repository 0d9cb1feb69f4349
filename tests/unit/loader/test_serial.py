"""num_workers=0 is torch's serial path, with the random numbers and notes that workers have."""

import itertools
import threading
import traceback

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from ftloader import DataLoader
from ftloader.batch.fetch import MapFetcher
from ftloader.iterators.serial import SerialDataLoaderIter
from ftloader.rng.sample import sample_rng
from tests.interruption import interrupted_at

pytestmark = pytest.mark.timeout(60)


class Augmented(Dataset):
    """Index and one draw from each of the sample's generators."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        rng = sample_rng()
        return torch.tensor(
            [index, rng.numpy.random(), rng.python.random(), torch.rand((), generator=rng.torch)], dtype=torch.float64
        )


class AugmentedStream(IterableDataset):
    def __iter__(self):
        for i in range(6):
            yield torch.tensor([i, sample_rng().python.random()], dtype=torch.float64)


class Failing(Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 9

    def __getitem__(self, index):
        if index == 4:
            raise self.error
        return index


def seeded(number=5):
    return torch.Generator().manual_seed(number)


def test_is_torchs_iterator():
    iterator = iter(DataLoader([1, 2]))
    assert type(iterator) is SerialDataLoaderIter
    assert isinstance(iterator, _SingleProcessDataLoaderIter)
    assert iterator._num_yielded == 0
    next(iterator)
    assert iterator._num_yielded == 1


@pytest.mark.thread_unsafe(reason="the profiler is one for all threads")
def test_the_profiler_sees_each_batch():
    with torch.autograd.profiler.profile() as profile:
        list(DataLoader(torch.arange(4), batch_size=2))
    names = [e.name for e in profile.function_events if e.name.startswith("enumerate(DataLoader)#")]
    assert len(names) == 3  # two batches and the end
    assert all(name.endswith(".__next__") for name in names)


def test_draws_from_torchs_generators_are_torchs():
    for arguments in ({"shuffle": True}, {}):
        ours, torchs = seeded(), seeded()
        list(DataLoader(torch.arange(9), batch_size=2, generator=ours, **arguments))
        list(torch.utils.data.DataLoader(torch.arange(9), batch_size=2, generator=torchs, **arguments))
        assert torch.equal(ours.get_state(), torchs.get_state())


def test_random_numbers_of_the_samples_repeat_and_differ():
    def epoch(**arguments):
        return torch.cat(list(DataLoader(Augmented(), batch_size=5, **arguments)))

    first = epoch(generator=seeded())
    assert torch.equal(first, epoch(generator=seeded()))
    assert not torch.equal(first[:, 1:], epoch(generator=seeded(6))[:, 1:])
    assert len(set(first[:, 1].tolist())) == 12
    dl = DataLoader(Augmented(), batch_size=5, generator=seeded())
    assert torch.equal(torch.cat(list(dl)), first)
    assert not torch.equal(torch.cat(list(dl))[:, 1:], first[:, 1:])  # the next epoch


@pytest.mark.thread_unsafe(reason="forks")
@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_numbers_with_workers(workers, worker_method):
    def epoch(num_workers):
        dl = DataLoader(
            Augmented(),
            batch_size=5,
            num_workers=num_workers,
            worker_method=worker_method,
            shuffle=True,
            generator=seeded(),
        )
        return torch.cat(list(dl))

    assert torch.equal(epoch(0), epoch(workers))


@pytest.mark.thread_unsafe(reason="forks")
def test_the_same_numbers_of_an_iterable_dataset_with_one_worker(worker_method):
    def epoch(num_workers):
        dl = DataLoader(
            AugmentedStream(), batch_size=4, num_workers=num_workers, worker_method=worker_method, generator=seeded()
        )
        return torch.cat(list(dl))

    assert torch.equal(epoch(0), epoch(1))


def test_a_loader_inside_a_sample_leaves_the_samples_numbers_alone():
    class Outer(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            before = sample_rng()
            inner = list(DataLoader(Augmented(), batch_size=4, generator=seeded()))
            assert sample_rng() is before
            return inner[0][0, 1]

    numbers = list(DataLoader(Outer(), batch_size=None))
    assert len(numbers) == 3 and len({n.item() for n in numbers}) == 1


def test_no_sample_outside_a_sample():
    list(DataLoader(Augmented(), batch_size=4))
    with pytest.raises(RuntimeError, match="not loading a sample"):
        sample_rng()


@pytest.mark.thread_unsafe(reason="one exception object for all threads")
@pytest.mark.parametrize("error", [ValueError("four"), KeyError(4), OSError(2, "gone"), SystemExit(4)])
def test_the_exception_itself_with_a_note(error):
    iterator = iter(DataLoader(Failing(error), batch_size=3))
    assert next(iterator).tolist() == [0, 1, 2]
    with pytest.raises(type(error)) as caught:
        next(iterator)
    assert caught.value is error
    assert any("dataset[4]" in note for note in error.__notes__)
    assert "in __getitem__" in "".join(traceback.format_exception(error))
    assert next(iterator).tolist() == [6, 7, 8]
    with pytest.raises(StopIteration):
        next(iterator)


def test_stop_iteration_of_a_sample_does_not_end_the_epoch():
    error = StopIteration("four")
    iterator = iter(DataLoader(Failing(error), batch_size=3))
    next(iterator)
    with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
        next(iterator)
    assert caught.value.__cause__ is error
    assert next(iterator).tolist() == [6, 7, 8]


def test_iter_of_the_dataset_is_called_once():
    calls = []

    class Stream(IterableDataset):
        def __iter__(self):
            calls.append(threading.get_ident())
            return iter(range(3))

    dl = DataLoader(Stream(), batch_size=2)
    assert [batch.tolist() for batch in dl] == [[0, 1], [2]]
    assert calls == [threading.get_ident()]


def test_stays_at_its_end():
    iterator = iter(DataLoader(AugmentedStream(), batch_size=4, drop_last=True))
    assert len(list(iterator)) == 1
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(iterator)


class Custom:
    def __init__(self, data):
        self.data, self.pinned = data, False

    def pin_memory(self):
        self.pinned = True
        return self


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="needs an accelerator")
def test_pinning_on_an_accelerator():
    batch = next(iter(DataLoader(torch.zeros(4, 2), batch_size=2, pin_memory=True)))
    assert batch.is_pinned()
    custom = next(iter(DataLoader([1], collate_fn=Custom, pin_memory=True)))
    assert custom.pinned


@pytest.mark.thread_unsafe(reason="records warnings")
def test_pinning_without_an_accelerator_warns_as_torch_does():
    if torch.accelerator.is_available():
        pytest.skip("an accelerator is available")
    with pytest.warns(UserWarning, match="no accelerator is found"):
        batch = next(iter(DataLoader([1], collate_fn=Custom, pin_memory=True)))
    assert not batch.pinned


def test_an_interruption_is_raised_as_it_is_wherever_it_strikes():
    """At each line of the fetcher, as Ctrl-C does."""
    for line in itertools.count(1):
        batches = iter(DataLoader([1, 2], batch_size=2))
        try:
            with interrupted_at(line, MapFetcher.fetch):
                next(batches)
        except KeyboardInterrupt:
            continue
        break
    assert line > 10
