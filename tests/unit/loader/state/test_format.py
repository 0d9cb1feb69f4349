"""States that are damaged, foreign or of an unlike loader:
refused, and the loader stays as it was.
"""

import copy
import io
import json
import pickle

import pytest
import torch
from torchdata.stateful_dataloader import StatefulDataLoader

from ftloader import DataLoader
from tests.datasets import Rows, Stream, seeded
from tests.unit.loader.state.resuming import contents


def make(**arguments):
    return DataLoader(
        range(20), **{"batch_size": 4, "shuffle": True, "generator": seeded()} | arguments
    )


def state_of(loader, batches=2):
    iterator = iter(loader)
    for _ in range(batches):
        next(iterator)
    return loader.state_dict()


def refused(state, loader, match):
    """Check that *loader* refuses *state*, and that nothing has changed."""
    other = copy.deepcopy(loader)
    before = loader.state_dict()
    with pytest.raises(ValueError, match=match):
        loader.load_state_dict(state)
    assert loader.state_dict() == before
    torch.manual_seed(0)
    expected = contents(other)
    torch.manual_seed(0)
    assert contents(loader) == expected


@pytest.mark.parametrize("loader", [make(), make(generator=None), DataLoader(Stream(), 4)])
@pytest.mark.parametrize("batches", [None, 0, 2, 5])
def test_survives_every_way_to_save(loader, batches):
    state = loader.state_dict() if batches is None else state_of(loader, batches)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    assert torch.load(file, weights_only=True) == state
    assert json.loads(json.dumps(state)) == state
    assert pickle.loads(pickle.dumps(state)) == state


@pytest.mark.parametrize(
    ("state", "match"),
    [
        *((state, "must be a dictionary from state_dict") for state in (None, [], "state", 3)),
        ({"epoch": 3, "model": {}}, "not a state of ftloader.DataLoader.*'epoch', 'model'"),
        (state_of(StatefulDataLoader(range(20), 4)), "torchdata's StatefulDataLoader"),
        (state_of(make()) | {"version": 5}, "version 5, and this loader reads version 6"),
        (state_of(make()) | {"version": 7}, "version 7, and this loader reads version 6"),
        (state_of(make()) | {"more": 1}, "damaged.*more"),
    ],
)
def test_what_is_no_state(state, match):
    refused(state, make(), match)


@pytest.mark.parametrize("key", state_of(make()))
def test_a_missing_part(key):
    state = state_of(make())
    del state[key]
    refused(state, make(), "damaged|not a state|version")


def test_a_damaged_generator():
    state = state_of(make())
    state["generators"]["0.generator"] = {"kind": "torch", "state": "AAAA"}
    with pytest.raises(ValueError, match="does not have"):
        make().load_state_dict(state)
    state = state_of(make())
    for saved in state["generators"].values():
        saved["state"] = "AAAA"
        refused(state, make(), "state of a random generator does not fit")


def test_a_damaged_generator_of_the_order_is_found_when_it_is_used():
    state = state_of(make())
    state["order"]["generators"]["loader.generator"]["state"] = "AAAA"
    loader = make()
    loader.load_state_dict(state)
    with pytest.raises(ValueError, match="state of a random generator"):
        contents(loader)


class Stateful(Rows):
    """Dataset, and sampler, with a state."""

    def __iter__(self):
        return iter(range(20))

    def state_dict(self):
        return {"a": 1}

    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize(
    ("saved", "loader", "match"),
    [
        (make(), make(batch_size=5), "another batch_size: 4 there, 5 here"),
        (make(), make(batch_size=None), "another batch_size: 4 there, None here"),
        (make(), make(drop_last=True), "another drop_last: False there, True here"),
        (make(), make(generator=None), "whose generator this one does not have"),
        (make(), make(shuffle=False), "sampler's random generator"),
        (
            make(generator=None),
            make(shuffle=False, generator=None),
            "shuffle=True.*SequentialSampler",
        ),
        (DataLoader(Stream(), 4), make(), "style: 'iterable' there, 'map' here"),
        (make(), DataLoader(Stream(), 4), "style: 'map' there, 'iterable' here"),
        (
            DataLoader(Stateful(), 4),
            DataLoader(range(20), 4),
            "state_dict.*dataset that the state was saved with",
        ),
        (
            DataLoader(range(20), 4, sampler=Stateful()),
            DataLoader(range(20), 4),
            "sampler inside has state_dict",
        ),
    ],
)
def test_an_unlike_loader(saved, loader, match):
    refused(state_of(saved), loader, match)


def test_the_caller_may_change_the_dictionary_afterwards():
    loader = make()
    state = state_of(loader)
    other = make()
    other.load_state_dict(state)
    expected = loader.state_dict()
    state.clear()
    assert other.state_dict() == expected
    other.state_dict().clear()
    assert len(contents(other)) == 3


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
def test_snapshot_every_n_steps_is_checked(value):
    with pytest.raises(
        ValueError, match="snapshot_every_n_steps must be an integer from 1 or None"
    ):
        make(snapshot_every_n_steps=value)
    loader = make()
    with pytest.raises(ValueError, match="snapshot_every_n_steps"):
        loader.snapshot_every_n_steps = value


def test_a_batch_sampler_like_torchs_own_is_the_same():
    state = state_of(make(generator=None, shuffle=False))
    sampler = torch.utils.data.BatchSampler(range(20), 4, False)
    loader = DataLoader(range(20), batch_sampler=sampler)
    loader.load_state_dict(state)
    assert len(contents(loader)) == 3
