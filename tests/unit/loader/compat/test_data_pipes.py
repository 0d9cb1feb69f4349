"""Data pipes with processes and without workers are as in torch's loader;
worker threads refuse them.
"""

import pytest
import torch
import torch.utils.data
from torch.utils.data.datapipes.iter import IterableWrapper
from torch.utils.data.datapipes.map import SequenceWrapper

from ftloader import DataLoader
from tests.datasets import seeded

pytestmark = [pytest.mark.filterwarnings("ignore:`shuffle=True` was set")]


def double(x):
    return 2 * x


def shuffled():
    return IterableWrapper(range(40)).shuffle().sharding_filter().map(double)


def is_odd(x):
    return x % 2


def branched():
    even, odd = IterableWrapper(range(30)).shuffle().demux(2, is_odd)
    return even.concat(odd).sharding_filter()


def epochs(kind, pipe, count, **arguments):
    loader = kind(pipe, batch_size=4, generator=seeded(), **arguments)
    return [[batch.tolist() for batch in loader] for _ in range(count)]


@pytest.mark.parametrize("make", [shuffled, branched])
@pytest.mark.parametrize(
    "arguments", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}], ids=str
)
@pytest.mark.slow
def test_processes_and_no_workers_are_torchs(make, arguments):
    ours = epochs(DataLoader, make(), 2, worker_method="process", **arguments)
    assert ours == epochs(torch.utils.data.DataLoader, make(), 2, **arguments)
    assert ours[0] != ours[1]  # shuffled for each epoch


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.slow
def test_no_more_draws_from_the_generator_than_torchs(workers):
    ours, torchs = seeded(), seeded()
    list(DataLoader(shuffled(), num_workers=workers, generator=ours, worker_method="process"))
    list(torch.utils.data.DataLoader(shuffled(), num_workers=workers, generator=torchs))
    assert torch.equal(ours.get_state(), torchs.get_state())


@pytest.mark.parametrize(
    "pipe", [IterableWrapper([1, 2]), SequenceWrapper([1, 2])], ids=["iter", "map"]
)
def test_threads_refuse_pipes_and_auto_takes_processes(pipe, caplog, gil_is_off):
    with pytest.raises(
        ValueError, match="DataPipe cannot be loaded by worker threads: use worker_method='process'"
    ):
        DataLoader(pipe, num_workers=1, worker_method="thread")
    caplog.set_level("INFO", "ftloader")
    assert sorted(DataLoader(pipe, batch_size=None, num_workers=1)) == [1, 2]
    assert "takes processes: the dataset is a data pipe" in caplog.text
