"""Loads the same samples, and trains on them, without workers, with threads and with processes."""

import contextlib

import torch

from ftloader import DataLoader

WORKERS = {
    "none": {},
    "one thread": {"num_workers": 1, "worker_method": "thread"},
    "two threads": {"num_workers": 2, "worker_method": "thread"},
    "two processes": {
        "num_workers": 2,
        "worker_method": "process",
        "multiprocessing_context": "fork",
    },
}
"""Arguments of DataLoader for each number and kind of workers."""


def with_each(dataset, epochs=1, **arguments):
    """Return {kind of workers: [batches of an epoch, ...]}, all with the same seed."""
    loaded = {}
    for kind, workers in WORKERS.items():
        generator = torch.Generator().manual_seed(1)
        loader = DataLoader(dataset, generator=generator, **workers, **arguments)
        loaded[kind] = [list(loader) for _epoch in range(epochs)]
    return loaded


@contextlib.contextmanager
def one_thread_for_each_operation():
    """Context manager: torch computes in one thread. Its threads wait in a loop for one another, so on
    a busy machine a small model trains ten times slower with them.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
