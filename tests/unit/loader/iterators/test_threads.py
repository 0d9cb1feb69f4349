"""The iterator of worker threads: prefetch, and memory of batches."""

import threading

import numpy as np
import torch
from torch.utils.data import default_collate

from ftloader import DataLoader
from tests.datasets import Rows


def threads(dataset, **arguments):
    return DataLoader(
        dataset, worker_method="thread", **{"batch_size": None, "num_workers": 2} | arguments
    )


def collate_by_hand(samples):
    return default_collate(samples), default_collate([np.ones(3) for _ in samples])


def test_batches_collated_by_hand_are_not_in_shared_memory():
    for batch in threads(Rows(50, torch.tensor), batch_size=5, collate_fn=collate_by_hand):
        assert not any(tensor.is_shared() for tensor in batch)


def test_workers_work_ahead_up_to_the_bound_without_being_asked():
    loaded, sixth = [], threading.Event()

    def load(index):
        loaded.append(index)
        if len(loaded) == 6:
            sixth.set()
        return index

    with iter(threads(Rows(50, load), prefetch_factor=3)) as iterator:
        assert sixth.wait(30)
        assert sorted(loaded) == [0, 1, 2, 3, 4, 5]
        assert next(iterator) == 0
