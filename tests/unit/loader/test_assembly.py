"""A batch in the making, where other workers change what it reads, at the worst moment."""

import math

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import default_collate

from ftloader import DataLoader
from ftloader.batch.assembly import Assembly, Builder, Mode
from ftloader.batch.errors import ErrorPolicy
from ftloader.batch.fetch import Epoch, Fetched, Recipe
from ftloader.batch.layout import Layout
from ftloader.batch.memory import BufferPool
from ftloader.batch.slots import Slots
from ftloader.batch.trial import CERTAIN, Trial
from ftloader.workers.messages import Failure

SAMPLES = [torch.full((200, 260), float(value)) for value in range(2)]


class AnotherFinishesABatch(Builder):
    """After every second look at ``expected`` another worker ends a batch that looks otherwise,
    and after the third one more."""

    looks = 0

    @property
    def expected(self):
        self.looks += 1
        return Layout.of(SAMPLES[0]) if self.looks % 3 else Mode.WHOLE

    @expected.setter
    def expected(self, value):
        pass


def of_threads(samples, kind=Builder):
    recipe = Recipe(True, default_collate, False, ErrorPolicy("raise"))
    return kind(recipe, samples, 2, BufferPool(2), Trial(warm_up=1), None)


def test_what_batches_look_like_may_change_between_two_looks():
    for earlier_looks in range(3):
        builder = of_threads(SAMPLES, AnotherFinishesABatch)
        builder.looks = earlier_looks
        fetched = Assembly(builder, Epoch(), [0, 1]).build()
        assert isinstance(fetched, Fetched), fetched
        data = fetched.data
        batch = data if isinstance(data, torch.Tensor) else data.batch()
        assert torch.equal(batch, torch.stack(SAMPLES))


@pytest.mark.parametrize(
    "seconds, helpers, first_piece", [(math.inf, 2, 16), (1.0, 2, 16), (20e-6, 2, 16), (4e-6, 1, 50), (1e-9, 1, 64)]
)
def test_cheap_samples_are_not_shared_out_in_small_pieces(seconds, helpers, first_piece):
    builder = of_threads(range(64))
    builder.seconds = seconds
    assembly = Assembly(builder, Epoch(), list(range(64)))
    assert assembly.helpers == helpers
    assert len(assembly._claim(None)) == first_piece


def test_both_ways_of_a_trial_give_torchs_batch(monkeypatch):
    monkeypatch.setattr("ftloader.batch.trial._LONG_ENOUGH", 0.0)
    samples = [{"tokens": torch.full((8192,), n), "mask": np.full((64, 64), n), "n": n} for n in range(4)]
    expected = default_collate(samples)
    builder = of_threads(samples)
    ways = set()
    for _ in range(20):
        data = Assembly(builder, Epoch(), [0, 1, 2, 3]).build().data
        ways.add(type(data) is Slots)
        batch = data.batch() if type(data) is Slots else data
        assert list(batch) == list(expected)
        assert all(torch.equal(batch[key], expected[key]) for key in expected)
    assert ways == {True, False}


@pytest.mark.parametrize("lengths", [[8192], [8192, 9000, 10_000]])
def test_once_stacking_is_chosen_few_batches_are_looked_at(lengths, monkeypatch):
    builder = of_threads([torch.zeros(length) for length in lengths for _ in range(2)])
    builder.trial._choice, builder.trial._nbytes = False, 4 * 8192  # as after a trial
    looks = []
    of = Layout.of
    monkeypatch.setattr(Layout, "of", lambda sample: looks.append(sample) or of(sample))
    for number in range(160):
        first = number % len(lengths) * 2
        data = Assembly(builder, Epoch(), [first, first + 1]).build().data
        assert data.shape == (2, lengths[number % len(lengths)])
    assert 9 <= len(looks) <= 24  # one in seventeen, and again the sample after it


@pytest.mark.parametrize("large_first", [False, True])
def test_large_batches_between_small_ones_that_are_stacked_have_slots(large_first):
    builder = of_threads([torch.zeros(length) for length in (8192, CERTAIN // 4) for _ in range(2)])
    builder.trial._choice, builder.trial._nbytes = False, 4 * 8192
    indices = [[0, 1], [2, 3]][:: -1 if large_first else 1]
    ways = [type(Assembly(builder, Epoch(), index).build().data) for index in indices * 40][-20:]
    small, large = (set(ways[parity::2]) for parity in ((1, 0) if large_first else (0, 1)))
    assert small == {torch.Tensor} and large == {Slots}


def tried(trial, slots, stacked, samples=4, values=2, warm_up=0):
    """Which batches had slots, where a sample in slots takes so many seconds, and a stacked one so many."""
    ways = []
    while (way := trial.choose(10_000, values))[1]:
        ways.append(way[0])
        cost = slots if way[0] else stacked
        trial.add(way[0], samples * (100.0 if ways.count(way[0]) <= warm_up else cost), samples)
    return ways


def test_what_is_cheaper_is_chosen():
    for slots, stacked, choice in ((1.0, 2.0, True), (2.0, 1.0, False), (1.0, 0.97, True)):
        trial = Trial(warm_up=2)
        assert tried(trial, slots, stacked, warm_up=2) == [True] * 10 + [False] * 10
        assert trial.choose(10_000, 2) == (choice, False)


def test_samples_that_cost_little_are_tried_for_longer():
    # Four samples of a millisecond: a tenth of a second has 25 batches.
    ways = tried(Trial(warm_up=2), 0.001, 0.002)
    assert 25 <= ways.count(True) <= 26 and 12 <= ways.count(False) <= 14


def test_the_cheapest_batch_counts():
    trial = Trial(warm_up=0)
    for _ in range(8):
        trial.add(True, 2.0, 1)
    for cost in (9.0, 9.0, 9.0, 1.0, 9.0, 9.0, 9.0, 9.0):  # most of them faulted in their memory
        trial.add(False, cost, 1)
    assert trial.choose(0, 1) == (False, False)


def test_much_larger_samples_are_tried_anew_and_large_ones_never():
    trial = Trial(warm_up=0)
    tried(trial, 2.0, 1.0, values=1)
    assert trial.choose(30_000, 1) == (False, False)
    assert trial.choose(50_000, 1) == (True, True)
    assert trial.choose(CERTAIN, 1) == (True, False)
    assert trial.choose(CERTAIN, 2)[1]  # of two values, so neither is large


class Huge:
    """Samples that take no memory, and batches for which there are no addresses."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.zeros(1).expand(2**44)


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_batch_that_there_is_no_memory_for_is_no_samples_fault(on_error):
    with pytest.raises(RuntimeError) as torchs:
        next(iter(TorchDataLoader(Huge(), batch_size=8)))
    loader = DataLoader(Huge(), batch_size=8, num_workers=2, worker_method="thread", on_error=on_error)
    with pytest.raises(RuntimeError) as ours:
        next(iter(loader))
    asked_for = f"you tried to allocate {8 * 2**46} bytes"
    assert asked_for in str(torchs.value) and asked_for in str(ours.value)
    allocation, batch = ours.value.__notes__
    assert allocation == f"raised in allocating {2**46} bytes for each of 8 samples"
    assert "building batch 0" in batch
    assert loader.skipped.count == 0


def test_no_sample_is_loaded_for_a_batch_that_there_is_no_memory_for():
    loaded = []

    class Counting(Huge):
        def __getitem__(self, index):
            loaded.append(index)
            return super().__getitem__(index)

    builder = of_threads(Counting())
    builder.expected = Layout.of(Huge()[0])
    outcome = Assembly(builder, Epoch(), [*range(8)]).build()
    assert isinstance(outcome, Failure) and "can't allocate memory" in str(outcome.exception)
    assert loaded == []
