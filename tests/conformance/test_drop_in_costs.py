"""The same program with torch's class and with ours, where ours once cost more: counts, not times."""

import itertools
import queue
import resource
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.utils.data as torch_data
from torch.nn.utils.rnn import pad_sequence

from ftloader import DataLoader
from ftloader.batch import assembly, layout
from ftloader.batch.slots import Slots
from ftloader.workers import pool
from tests.datasets import Rows


@pytest.fixture(autouse=True)
def real_slots(small_arrays_have_slots):
    """Only large arrays have slots, as in a program."""
    layout.SMALLEST_SLOT, small = small_arrays_have_slots, layout.SMALLEST_SLOT
    yield
    layout.SMALLEST_SLOT = small


def torchs(*args, **more):
    return torch_data.DataLoader(*args, **more, multiprocessing_context="fork" if more.get("num_workers") else None)


def threads(*args, **more):
    return DataLoader(*args, **more, worker_method="thread")


# 4: several large arrays a sample

each_number_of_leaves = pytest.mark.parametrize("leaves", [1, 2, 4, 8])


def images(leaves):
    pattern = np.random.default_rng(0).integers(0, 255, (320, 320, 3), np.uint8)
    return Rows(16, lambda index: [pattern + np.uint8(16 * leaf + index) for leaf in range(leaves)])


@each_number_of_leaves
def test_the_memory_of_several_large_arrays_is_made_and_faulted_in_once(leaves, monkeypatch):
    def faults(loader_class, epochs):
        """Yield the page faults of each epoch, which has an iterator of its own. New threads may get new memory."""
        loader = loader_class(images(leaves), 4, num_workers=2)
        for _ in range(epochs):
            before = page_faults()
            for batch in loader:
                assert [leaf.shape for leaf in batch] == [(4, 320, 320, 3)] * leaves
                batch = None
            yield page_faults() - before

    (expected,) = faults(torchs, 1)
    made = []
    allocate = torch.UntypedStorage
    monkeypatch.setattr(torch, "UntypedStorage", lambda nbytes: made.append(nbytes) or allocate(nbytes))
    assert min(list(faults(threads, 8))[2:]) < expected / 20
    # For the batches in the making, the one in hand, and those that the loop and a worker are about to drop.
    assert len(made) <= leaves * (2 * 2 + 3)


def page_faults():
    """Return the page faults of this process and of its children that have ended."""
    return sum(resource.getrusage(who).ru_minflt for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's account of a process's memory")
@pytest.mark.parametrize("loader_class", [torchs, threads])
@pytest.mark.slow
def test_the_memory_of_shapes_that_do_not_come_any_more_is_given_back(loader_class):
    """The sizes grow and shrink from epoch to epoch, as in progressive resizing."""
    mebibytes = torch.zeros(16, 1 << 20, dtype=torch.uint8)
    rows = Rows(24, lambda index: mebibytes[:side])  # no memory but the batches' is taken
    loader = loader_class(rows, 4, num_workers=1)
    resident = []
    for side in (1, 10, 12, *[1] * 6):
        for batch in loader:
            assert batch.shape == (4, side, 1 << 20)
            batch = None
        resident.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20)
    assert resident[-1] - resident[0] < 64, resident


# 5: small tensors, ragged samples, dicts of scalars


def bucketed(index):
    """Return a sample whose shape is that of its batch of eight, and differs from the previous batch's."""
    return {"image": torch.full((256, 128 + index // 8 % 7), index), "label": index}


KINDS = {
    "four small tensors": (lambda i: {name: torch.arange(512) + i for name in "abcd"}, None),
    "ragged, padded": (lambda i: torch.full((4096 + i % 50,), i), lambda rows: pad_sequence(rows, batch_first=True)),
    "ragged by batch": (bucketed, None),
    "scalars": (lambda i: {"id": i, "x": i / 3, "name": f"row {i}", "flag": i % 2 == 0, "y": np.float32(i)}, None),
}
BATCHES = 40


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow(cases=1)
def test_small_samples(kind, assert_same, monkeypatch):
    opened, used = [], []
    monkeypatch.setattr(assembly, "Slots", lambda *args: opened.append(args) or Slots(*args))
    batch_of = Slots.batch
    monkeypatch.setattr(Slots, "batch", lambda slots: used.append(slots) or batch_of(slots))
    make, collate_fn = KINDS[kind]

    def program(loader_class):
        """Yield for each of two epochs: the batches, the number with slots, the number of unused slots."""
        loader = loader_class(Rows(8 * BATCHES, make), 8, num_workers=2, collate_fn=collate_fn)
        for _ in range(2):
            opened.clear(), used.clear()
            yield list(loader), len(used), len(opened) - len(used)

    for torchs_epoch, *epochs in zip(program(torchs), program(threads), program(DataLoader), strict=True):
        # With the GIL on, the last loader ("auto") takes processes, which build their batches elsewhere.
        for threaded, (batches, with_slots, in_vain) in zip((True, not sys._is_gil_enabled()), epochs, strict=True):
            assert_same(batches, torchs_epoch[0])
            assert (with_slots > BATCHES / 2) if threaded and kind == "ragged by batch" else (with_slots == 0)
            assert in_vain <= 6  # those in the making when the first proved wrong


# 13: no workers, and many, for tiny samples


@pytest.mark.parametrize("batch_size", [1, 8, 64, None])
def test_without_workers_a_batch_costs_a_few_calls_more_and_a_sample_none(batch_size, assert_same):
    size = 1024 if batch_size is None else 128 * batch_size

    def calls(loader_class):
        """Return an epoch's batches, and the number of Python functions that it calls per batch."""
        count = itertools.count()
        tool, events = sys.monitoring.PROFILER_ID, sys.monitoring.events
        loader = loader_class(list(range(size)), batch_size, num_workers=0)
        sys.monitoring.use_tool_id(tool, "calls of an epoch")
        try:
            sys.monitoring.register_callback(tool, events.PY_START, lambda *_: next(count))
            sys.monitoring.set_events(tool, events.PY_START)
            batches = list(loader)
        finally:
            sys.monitoring.set_events(tool, 0)
            sys.monitoring.free_tool_id(tool)
        return batches, next(count) / len(batches)

    batches, ours = calls(DataLoader)
    expected, torchs_calls = calls(torchs)
    assert_same(batches, expected)
    assert ours - torchs_calls < 25  # 8 of them for loader.statistics()


@pytest.mark.slow
def test_many_workers_for_tiny_samples(assert_same, monkeypatch):
    tasks = []

    class Counted(queue.SimpleQueue):
        def put(self, task):
            tasks.append(task)
            super().put(task)

    monkeypatch.setattr(pool, "SimpleQueue", Counted)
    monkeypatch.setattr("time.perf_counter", assembly.time.thread_time)  # a sample is not slow because others run

    def program(loader_class, workers):
        return list(loader_class(range(16 * 1000), 16, num_workers=workers))

    assert_same(program(threads, 64), program(torchs, 2))  # in 64 processes all would wait for these to start
    # At first 16 workers are asked to help with a batch. Once the time of a sample is known, one is.
    assert 1000 <= len(tasks) < 8 * 1000
