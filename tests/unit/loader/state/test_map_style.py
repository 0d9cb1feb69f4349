"""Map-style loaders stopped after any batch: resumed with any workers,
they give the remaining batches.
"""

import copy
import json
import pickle

import pytest
import torch
from torchdata.stateful_dataloader.stateful import Stateful

from ftloader import DataLoader
from tests.datasets import seeded
from tests.unit.loader.state.resuming import (
    ALL_PAIRS,
    EACH_WAY,
    FEW_PAIRS,
    SIZE,
    contents,
    interrupt,
    plain,
    resume,
    shuffling,
)


@pytest.mark.parametrize(("saving", "loading"), ALL_PAIRS)
@pytest.mark.slow
def test_the_remaining_batches_and_the_next_epoch_are_the_same(saving, loading):
    loader = shuffling(saving)
    first, state, rest = interrupt(loader, 2)
    following = contents(loader)

    other = shuffling(loading, generator=seeded(99))
    assert resume(other, state) == rest
    assert contents(other) == following
    assert sorted(i for indices, _ in first + rest for i in indices) == list(range(SIZE))
    assert sorted(i for indices, _ in following for i in indices) == list(range(SIZE))
    assert following[0] != first[0]


@pytest.mark.parametrize(
    "arguments",
    [
        {"shuffle": False},
        {"drop_last": True},
        {"batch_size": None},
        {"batch_size": None, "shuffle": False},
        {"batch_size": None, "shuffle": False, "generator": None},
        {"persistent_workers": True},
        {"prefetch_factor": 1},
        {"in_order": False},
        {"snapshot_every_n_steps": 3},
        {"snapshot_every_n_steps": None},
    ],
    ids=str,
)
@pytest.mark.parametrize(("saving", "loading"), FEW_PAIRS)
def test_with_other_arguments(saving, loading, arguments):
    def make(way):
        fitting = dict(arguments)
        if way == "serial":
            fitting.pop("persistent_workers", None)
            fitting.pop("prefetch_factor", None)
        return shuffling(way, **fitting)

    first, state, rest = interrupt(make(saving), 3)
    resumed = resume(make(loading), state)
    if arguments.get("in_order", True):
        assert resumed == rest
    else:
        assert sorted(resumed) == sorted(rest)


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow(cases=1)
def test_asking_for_the_state_draws_nothing_and_disturbs_nothing(way):
    undisturbed = contents(shuffling(way))
    loader = shuffling(way)
    loader.state_dict()
    torch.manual_seed(1)
    before = torch.get_rng_state()
    batches = []
    for batch in loader:
        batches.append(plain(batch))
        assert loader.state_dict() == loader.state_dict()
    loader.state_dict()
    assert batches == undisturbed
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("handed_over", [0, 2, 6])
@pytest.mark.parametrize("way", EACH_WAY)
def test_the_iterator_may_be_gone(way, handed_over):
    _, state, rest = interrupt(shuffling(way), handed_over)
    loader = shuffling(way)
    iterator = iter(loader)
    for _ in range(handed_over):
        next(iterator)
    assert loader.state_dict() == state
    del iterator
    assert loader.state_dict() == state
    assert resume(loader, loader.state_dict()) == rest


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow(cases=1)
def test_the_state_that_was_loaded_is_the_state(way):
    _, state, rest = interrupt(shuffling(way), 3)
    loader = shuffling(way)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    iterator = iter(loader)
    assert loader.state_dict() == state
    assert contents(iterator) == rest


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow
def test_loading_does_not_touch_an_iterator_in_use(way):
    _, state, rest = interrupt(shuffling(way), 3)
    loader = shuffling(way)
    expected = contents(shuffling(way))
    iterator = iter(loader)
    first = plain(next(iterator))
    loader.load_state_dict(state)
    assert [first, *contents(iterator)] == expected
    # The generator belongs to both; it is put right for the resumed epoch.
    assert contents(loader) == rest


@pytest.mark.parametrize("way", ["serial", "threads"])
def test_an_empty_state_starts_over(way):
    _, state, _ = interrupt(shuffling(way), 3)
    loader = shuffling(way)
    loader.load_state_dict(state)
    loader.load_state_dict({})
    assert len(contents(loader)) == 6


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_a_loader_have_a_state_of_their_own(duplicate):
    def make():
        return DataLoader(range(SIZE), batch_size=4)

    loader = make()
    next(iter(loader))
    other = duplicate(loader)
    assert other.state_dict()["phase"] == "begin"
    assert len(contents(other)) == 6
    assert loader.state_dict()["handed_over"] == 1

    loaded = make()
    loaded.load_state_dict(loader.state_dict())
    other = duplicate(loaded)
    assert len(contents(loaded)) == len(contents(other)) == 5
    assert len(contents(other)) == 6


def test_tools_recognise_a_loader_with_a_state():
    assert isinstance(DataLoader(range(3)), Stateful)


def test_the_state_does_not_grow_with_the_dataset():
    def size(samples):
        loader = DataLoader(range(samples), batch_size=2, shuffle=True)
        next(iter(loader))
        return len(json.dumps(loader.state_dict()))

    assert abs(size(200_000) - size(10)) < 100


# Before, after and between epochs


@pytest.mark.parametrize("epochs", [0, 1])
def test_between_epochs_the_order_comes_from_the_programs_generator_as_it_is(epochs):
    torch.manual_seed(7)
    loader = shuffling("threads", generator=None)
    for _ in range(epochs):
        contents(loader)
    state = loader.state_dict()
    torch.manual_seed(8)
    expected = contents(loader)
    torch.manual_seed(8)
    assert resume(shuffling("serial", generator=None), state) == expected


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize(
    ("saving", "loading"), [("threads", "processes"), ("processes", "threads")]
)
def test_persistent_workers_in_a_later_epoch(saving, loading):
    loader = shuffling(saving, persistent_workers=True)
    contents(loader)
    _, state, rest = interrupt(loader, 2)
    following = contents(loader)
    assert state["epoch"] == 1

    other = shuffling(loading, persistent_workers=True)
    contents(other)
    assert resume(other, state) == rest
    assert contents(other) == following
    state = loader.state_dict()
    assert other.state_dict()["epoch"] == state["epoch"] == 3
    following = contents(loader)
    assert resume(shuffling(loading, persistent_workers=True), state) == following


@pytest.mark.parametrize("way", EACH_WAY)
@pytest.mark.slow
def test_a_resumed_epoch_can_be_interrupted_again(way):
    expected = contents(shuffling(way))
    state = None
    batches = []
    for _ in expected:
        loader = shuffling(way, generator=seeded(len(batches)) if batches else seeded())
        if state is not None:
            loader.load_state_dict(state)
        iterator = iter(loader)
        batches.append(plain(next(iterator)))
        del iterator
        state = loader.state_dict()
    assert batches == expected
    assert resume(shuffling(way), state) == []
