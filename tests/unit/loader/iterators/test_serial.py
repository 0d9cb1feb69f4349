"""The iterator without workers: torch's own, and interrupted as torch's is."""

import itertools
import threading

import torch
from torch.utils.data import IterableDataset
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from ftloader import DataLoader
from ftloader.batch.fetch import MapFetcher
from tests.interruption import interrupted_at


def test_is_torchs_iterator():
    iterator = iter(DataLoader([1, 2]))
    assert isinstance(iterator, _SingleProcessDataLoaderIter) and iterator._num_yielded == 0
    next(iterator)
    assert iterator._num_yielded == 1


def test_the_profiler_sees_each_batch():
    with torch.autograd.profiler.profile() as profile:
        list(DataLoader(torch.arange(4), batch_size=2))
    names = [e.name for e in profile.function_events if e.name.startswith("enumerate(DataLoader)#")]
    assert len(names) == 3  # two batches and the end
    assert all(name.endswith(".__next__") for name in names)


def test_iter_of_the_dataset_is_called_once():
    calls = []

    class Stream(IterableDataset):
        def __iter__(self):
            calls.append(threading.get_ident())
            return iter(range(3))

    dl = DataLoader(Stream(), batch_size=2)
    assert [batch.tolist() for batch in dl] == [[0, 1], [2]]
    assert calls == [threading.get_ident()]


def test_an_interruption_is_raised_as_it_is_wherever_it_strikes():
    """Interrupt at each line of the fetcher, as Ctrl-C may."""
    for line in itertools.count(1):
        batches = iter(DataLoader([1, 2], batch_size=2))
        try:
            with interrupted_at(line, MapFetcher.fetch):
                next(batches)
        except KeyboardInterrupt:
            continue
        break
    assert line > 10
