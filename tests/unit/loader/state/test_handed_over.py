"""Batches that count as handed over: out of order, shards,
samples left out, exceptions, stateful datasets.
"""

import itertools
import threading

import pytest
import torch
from torch.utils.data import DistributedSampler

from ftloader import DataLoader
from tests.datasets import Failing, Gated, seeded
from tests.unit.loader.state.resuming import (
    EACH_WAY,
    FEW_PAIRS,
    NOISY,
    SIZE,
    WAYS,
    contents,
    interrupt,
    noisy,
    resume,
)
from tests.unit.loader.state.stateful_datasets import Counting


@pytest.mark.parametrize("saving", ["threads", "processes"])
@pytest.mark.parametrize("loading", EACH_WAY)
@pytest.mark.slow(cases=1)
def test_batches_out_of_order_are_neither_lost_nor_repeated(saving, loading):
    event = threading.Event() if saving == "threads" else torch.multiprocessing.Event()
    # Of two batches at a time, so that the other workers do not have to build the first one.
    loader = DataLoader(
        Gated(event, SIZE), batch_size=None, in_order=False, prefetch_factor=4, **WAYS[saving]
    )
    iterator = iter(loader)
    first = contents(itertools.islice(iterator, 2))
    assert 0 not in first
    state = loader.state_dict()
    assert state["handed_over"] == 0
    assert sorted(state["ahead"]) == sorted(first)
    event.set()
    rest = contents(iterator)
    assert sorted(first + rest) == list(range(SIZE))
    resumed = resume(DataLoader(Gated(event, SIZE), batch_size=None, **WAYS[loading]), state)
    assert resumed == sorted(rest)


@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
@pytest.mark.slow
def test_distributed_sampler(saving, loading):
    def make(way, rank):
        sampler = DistributedSampler(range(SIZE), num_replicas=2, rank=rank, shuffle=True, seed=1)
        return DataLoader(NOISY, batch_size=2, sampler=sampler, generator=seeded(), **WAYS[way])

    for rank in (0, 1):
        loader = make(saving, rank)
        loader.sampler.set_epoch(5)
        _, state, rest = interrupt(loader, 2)
        assert rest
        # The epoch's number is part of the state, for programs that forget it.
        other = make(loading, rank)
        assert resume(other, state) == rest
        assert other.sampler.epoch == 5

    contents(loader)
    state = loader.state_dict()
    other = make(loading, 1)
    other.sampler.set_epoch(6)
    loader.sampler.set_epoch(6)
    assert resume(other, state) == contents(loader)  # of a whole epoch it is the program's


def faulty(at):
    return Failing(lambda index: OSError(f"cannot read {index}"), SIZE, at, noisy)


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
@pytest.mark.slow
def test_samples_left_out_count_as_handed_over(saving, loading):
    def make(way):
        # All of the third batch, some of others.
        dataset = faulty({1, 8, 9, 10, 11, 17})
        return DataLoader(dataset, batch_size=4, on_error="skip", generator=seeded(), **WAYS[way])

    assert len(contents(make(saving))) == 5
    for handed_over in range(6):
        first, state, rest = interrupt(make(saving), handed_over)
        assert resume(make(loading), state) == rest
        assert len(first) + len(rest) == 5


@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
@pytest.mark.slow
def test_a_batch_that_raised_is_tried_again_until_a_later_one_was_handed_over(saving, loading):
    def make(way, at):
        return DataLoader(faulty(at), batch_size=4, generator=seeded(), **WAYS[way])

    expected = contents(make(saving, ()))
    loader = make(saving, {5})
    iterator = iter(loader)
    next(iterator)
    with pytest.raises(OSError, match="cannot read 5"):
        next(iterator)
    state = loader.state_dict()
    assert resume(make(loading, ()), state) == expected[1:]
    next(iterator)
    state = loader.state_dict()
    assert resume(make(loading, ()), state) == expected[3:] == contents(iterator)


def test_the_datasets_own_state_is_restored():
    _, state, rest = interrupt(DataLoader(Counting(SIZE), batch_size=4), 2)
    assert state["dataset"] == {"loaded": 8}
    for way in ("serial", "process"):
        assert resume(DataLoader(Counting(SIZE), batch_size=4, **WAYS[way]), state) == rest

    dataset = Counting(SIZE)
    _, state, rest = interrupt(DataLoader(dataset, batch_size=4, **WAYS["threads"]), 2)
    assert dataset.loaded == SIZE
    other = Counting(SIZE)
    loader = DataLoader(other, batch_size=4, **WAYS["threads"])
    loader.load_state_dict(state)
    next(iter(loader))
    assert other.loaded >= state["dataset"]["loaded"] + 4 >= 12


@pytest.mark.parametrize(
    ("saving", "loading"), itertools.product(["copies", "processes"], repeat=2)
)
@pytest.mark.slow
def test_the_states_of_each_workers_dataset_are_restored(saving, loading):
    def make(way, **arguments):
        return DataLoader(
            Counting(SIZE), batch_size=4, snapshot_every_n_steps=1, **WAYS[way] | arguments
        )

    first, state, rest = interrupt(make(saving), 3)
    assert [batch[1] for batch in first] == [[1, 2, 3, 4], [1, 2, 3, 4], [5, 6, 7, 8]]
    assert state["datasets"] == [{"loaded": 8}, {"loaded": 4}]
    assert resume(make(loading), state) == rest
    for loader in (make("serial"), make("threads"), make(loading, num_workers=3)):
        loader.load_state_dict(state)
        with pytest.raises(ValueError, match=r"2 different states.*num_workers=2"):
            iter(loader)

    _, state, rest = interrupt(make(saving), 4)  # now they have the same
    assert [indices for indices, _ in resume(make("threads"), state)] == [
        indices for indices, _ in rest
    ]
