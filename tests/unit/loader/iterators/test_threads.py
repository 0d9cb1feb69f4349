"""The iterator of worker threads: order, prefetch, memory of batches, and several threads that consume."""

import threading

import numpy as np
import torch
from torch.utils.data import default_collate

from ftloader import DataLoader
from tests.datasets import Rows


def threads(dataset, **arguments):
    return DataLoader(dataset, worker_method="thread", **{"batch_size": None, "num_workers": 2} | arguments)


def overtaken():
    """Return six samples. Sample 0 waits until the other worker has sent sample 1."""
    second_sent = threading.Event()

    def load(index):
        if index == 0:
            assert second_sent.wait(30)
        if index >= 2:  # by the worker that had sample 1
            second_sent.set()
        return index

    return Rows(6, load)


def test_order_is_kept_when_batches_are_finished_out_of_order():
    assert list(threads(overtaken())) == [0, 1, 2, 3, 4, 5]


def test_in_order_false_hands_over_what_is_finished():
    values = list(threads(overtaken(), in_order=False))
    assert values[0] != 0
    assert sorted(values) == [0, 1, 2, 3, 4, 5]


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
