"""Functions given with an iterable-style dataset:
each worker has its own copy, made with its dataset.
"""

import threading

import pytest
import torch
from torch.utils.data import DataLoader as Torchs
from torch.utils.data import IterableDataset, default_collate, get_worker_info

from ftloader import DataLoader


class Parts(IterableDataset):
    def __init__(self):
        self.part, self.seen = list(range(12)), 0

    def shard(self, worker_id):
        self.part = self.part[worker_id :: get_worker_info().num_workers]

    def __iter__(self):
        for sample in self.part:
            self.seen += 1
            yield sample

    def collate(self, samples):
        return {"samples": default_collate(samples), "seen": self.seen}


def bound(parts):
    return {"worker_init_fn": parts.shard, "collate_fn": parts.collate}


def closed_over(parts):
    def init(worker_id):
        parts.part = parts.part[worker_id :: get_worker_info().num_workers]

    return {"worker_init_fn": init, "collate_fn": lambda samples: (samples, parts.seen)}


class Packing:
    """collate_fn that keeps the rest of a batch for the next one."""

    left: list = []

    def __init__(self):
        self.calls = 0

    def __call__(self, samples):
        self.calls += 1
        packed = [*self.left, *samples]
        self.left = packed[3:]
        return torch.tensor(packed[:3]), self.calls


def packing(parts):
    return {"worker_init_fn": parts.shard, "collate_fn": Packing()}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("functions", [bound, closed_over, packing])
@pytest.mark.slow(cases=2)
def test_functions_are_each_workers_own(functions, persistent, assert_same):
    def program(loader_class, **more):
        parts = Parts()
        arguments = {**functions(parts), **more}
        loader = loader_class(parts, 4, num_workers=2, persistent_workers=persistent, **arguments)
        epochs = [list(loader) for _ in range(2)]
        return (
            epochs,
            parts.part,
            parts.seen,
            vars(arguments["collate_fn"]) if functions is packing else None,
        )

    assert_same(
        program(DataLoader, worker_method="thread"), program(Torchs, multiprocessing_context="fork")
    )


def test_functions_of_a_map_style_dataset_are_shared():
    lock = threading.Lock()  # cannot be pickled
    threads = set()

    def collate(samples):
        with lock:
            threads.add(threading.get_ident())
        return samples

    list(DataLoader(range(8), num_workers=2, worker_method="thread", collate_fn=collate))
    assert threads and threading.get_ident() not in threads
