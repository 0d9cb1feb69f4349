"""Batches under construction while other workers change their hints, at the worst moment."""

import math
import types

import pytest
import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import default_collate

from ftloader import DataLoader
from ftloader.batch import layout
from ftloader.batch.assembly import BatchHints, Mode, SharedBatch
from ftloader.batch.errors import ErrorPolicy
from ftloader.batch.fetch import BatchFailure, BatchSettings, Epoch, Fetched
from ftloader.batch.in_use import WorkersInUse
from ftloader.batch.layout import Layout
from ftloader.batch.memory import BufferPool
from ftloader.batch.slots import Slots
from ftloader.diagnosis.recording import WorkerTimes
from tests.datasets import Rows

SAMPLES = [torch.full((200, 260), float(value)) for value in range(2)]


class AnotherFinishesABatch(BatchHints):
    """After every second look at ``expected`` another worker ends a batch that looks otherwise,
    and after the third one more."""

    looks = 0

    @property
    def expected(self):
        self.looks += 1
        return Layout.of(SAMPLES[0]) if self.looks % 3 else Mode.PLAIN

    @expected.setter
    def expected(self, value):
        pass


def of_threads(kind=BatchHints):
    settings = BatchSettings(True, default_collate, False, ErrorPolicy("raise"))
    return kind(settings, WorkersInUse(2), BufferPool(2), None)


def build(hints, samples, index):
    return SharedBatch(hints, Epoch(), index).build(
        types.SimpleNamespace(dataset=samples, times=WorkerTimes(), settings=hints.settings)
    )


def test_what_batches_look_like_may_change_between_two_looks():
    for earlier_looks in range(3):
        hints = of_threads(AnotherFinishesABatch)
        hints.looks = earlier_looks
        fetched = build(hints, SAMPLES, [0, 1])
        assert isinstance(fetched, Fetched), fetched
        data = fetched.data
        batch = data if isinstance(data, torch.Tensor) else data.batch()
        assert torch.equal(batch, torch.stack(SAMPLES))


@pytest.mark.parametrize(
    "seconds, helpers, first_piece",
    [(math.inf, 2, 16), (1.0, 2, 16), (20e-6, 2, 16), (4e-6, 1, 50), (1e-9, 1, 64)],
)
def test_cheap_samples_are_not_shared_out_in_small_pieces(seconds, helpers, first_piece):
    hints = of_threads()
    hints.seconds = seconds
    batch = SharedBatch(hints, Epoch(), list(range(64)))
    assert batch.helpers == helpers
    assert len(batch._claim(None)) == first_piece


@pytest.mark.parametrize("fewer, kind", [(0, Slots), (1, torch.Tensor)])
def test_arrays_of_a_certain_size_have_slots(fewer, kind):
    samples = [
        torch.full((layout.SMALLEST_SLOT // 8 - fewer,), float(n), dtype=torch.float64)
        for n in range(4)
    ]
    hints = of_threads()
    for _ in range(20):
        data = build(hints, samples, [0, 1, 2, 3]).data
        assert type(data) is kind
        assert torch.equal(data.batch() if kind is Slots else data, torch.stack(samples))


@pytest.mark.parametrize("lengths", [[256], [256, 512, 768]])
def test_few_batches_of_small_samples_are_looked_at(lengths, monkeypatch):
    samples = [torch.zeros(length) for length in lengths for _ in range(2)]
    hints = of_threads()
    looks = []
    of = Layout.of
    monkeypatch.setattr(Layout, "of", lambda sample: looks.append(sample) or of(sample))
    for number in range(160):
        first = number % len(lengths) * 2
        data = build(hints, samples, [first, first + 1]).data
        assert data.shape == (2, lengths[number % len(lengths)])
    assert 9 <= len(looks) <= 12  # one in seventeen, and the first twice


@pytest.mark.parametrize("large_first", [False, True])
def test_large_batches_between_small_ones_have_slots(large_first):
    samples = [torch.zeros(length) for length in (256, layout.SMALLEST_SLOT // 4) for _ in range(2)]
    hints = of_threads()
    indices = [[0, 1], [2, 3]][:: -1 if large_first else 1]
    ways = [type(build(hints, samples, index).data) for index in indices * 60][-20:]
    small, large = (set(ways[parity::2]) for parity in ((1, 0) if large_first else (0, 1)))
    assert small == {torch.Tensor} and large == {Slots}


HUGE = Rows(8, lambda index: torch.zeros(1).expand(2**44))
"""Samples that take no memory, and whose batches are too large for the address space."""


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_batch_that_there_is_no_memory_for_is_no_samples_fault(on_error):
    with pytest.raises(RuntimeError) as torchs:
        next(iter(TorchDataLoader(HUGE, batch_size=8)))
    loader = DataLoader(
        HUGE, batch_size=8, num_workers=2, worker_method="thread", on_error=on_error
    )
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
    counting = Rows(8, lambda index: loaded.append(index) or HUGE[index])
    hints = of_threads()
    hints.expected = Layout.of(HUGE[0])
    outcome = build(hints, counting, [*range(8)])
    assert isinstance(outcome, BatchFailure) and "can't allocate memory" in str(outcome.exception)
    assert loaded == []
