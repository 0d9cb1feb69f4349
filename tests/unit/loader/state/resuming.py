"""Helpers that interrupt and resume loaders."""

import itertools
import json

import torch

from ftloader import DataLoader
from ftloader.iterators.auto import Chosen
from ftloader.rng.sample import sample_rng
from tests.datasets import Rows, seeded

WAYS = {
    "serial": {"num_workers": 0},
    "thread": {"num_workers": 1, "worker_method": "thread"},
    "threads": {"num_workers": 2, "worker_method": "thread"},
    "auto": {"num_workers": Chosen(2), "worker_method": "thread"},  # "auto" with two CPUs
    "copies": {"num_workers": 2, "worker_method": "thread", "copy_dataset": True},
    "process": {"num_workers": 1, "worker_method": "process"},
    "processes": {"num_workers": 2, "worker_method": "process"},
}
"""Ways to load, by name; serial, thread and process read an iterable-style dataset alike."""

ONE_STREAM = ["serial", "thread", "process"]


EACH_WAY = list(WAYS)
ALL_PAIRS = [
    *itertools.product([way for way in WAYS if way not in ("auto", "copies")], repeat=2),
    ("auto", "processes"),
    ("serial", "auto"),
    ("copies", "processes"),
    ("threads", "copies"),
]
FEW_PAIRS = [
    ("serial", "threads"),
    ("threads", "processes"),
    ("threads", "serial"),
    ("processes", "threads"),
    ("process", "thread"),
    ("copies", "process"),
]
"""For tests of what does not depend on the pair: each way saves and loads in one of them."""


def plain(batch):
    """Return *batch* as plain lists, which == compares."""
    if isinstance(batch, torch.Tensor):
        return batch.tolist()
    if isinstance(batch, (list, tuple)):
        return [plain(part) for part in batch]
    return batch


def contents(batches) -> list:
    return [plain(batch) for batch in batches]


class _Tensors:
    def save(tensor):
        return {"tensor": tensor.tolist(), "dtype": str(tensor.dtype)}

    def load(value):
        if set(value) != {"tensor", "dtype"}:
            return value
        return torch.tensor(
            value["tensor"], dtype=getattr(torch, value["dtype"].removeprefix("torch."))
        )


def interrupt(loader, handed_over: int):
    """Return the first batches, the state after them (through JSON), and the remaining batches."""
    iterator = iter(loader)
    first = contents(itertools.islice(iterator, handed_over))
    # A sampler's or dataset's own state may hold a tensor.
    state = json.loads(
        json.dumps(loader.state_dict(), default=_Tensors.save), object_hook=_Tensors.load
    )
    return first, state, contents(iterator)


def resume(loader, state) -> list:
    loader.load_state_dict(state)
    return contents(loader)


SIZE = 23


def noisy(index):
    return index, sample_rng().numpy.integers(1 << 30)


NOISY = Rows(SIZE, noisy)
"""Rows with random numbers of their own."""


def shuffling(way, **arguments):
    """Return a loader that shuffles with a generator of its own,
    so that the state decides all draws.
    """
    arguments = {"batch_size": 4, "shuffle": True, "generator": seeded()} | arguments
    return DataLoader(NOISY, **WAYS[way], **arguments)
