"""Time ``next()`` for batches that cost nothing to load:
what the loader itself does in the loop's thread.

    ./twins exec ft python evaluation/loader/ready.py

A dataset gives ready batches of many Python objects. "none" and "torch, none" load in the loop's
thread; for "thread" the loop waits until a worker has the next batch. In microseconds: the median
of the calls.
"""

import collections
import statistics
import time

import torch
from torch.utils.data import DataLoader as Torchs

from ftloader import DataLoader

Point = collections.namedtuple("Point", "x y")
KINDS = {
    "4,000 lists of 20 pairs": [[(i, float(i)) for i in range(20)] for _ in range(4000)],
    "3,000 dicts of 12 tensors": [
        {f"key {n}": torch.zeros(3) for n in range(12)} for _ in range(3000)
    ],
    "4,000 namedtuples": [Point(i, float(i)) for i in range(4000)],
    "4,000 strings": ["text"] * 4000,
    "4,000 objects": [object() for _ in range(4000)],
    "a tensor": torch.zeros(64, 3),
}
CALLS = 50


class Ready(torch.utils.data.Dataset):
    """Dataset of *CALLS* samples, each of them *batch* itself."""

    def __init__(self, batch):
        self._batch = batch

    def __len__(self):
        return CALLS

    def __getitem__(self, index):
        return self._batch


def same(batch):
    return batch


def median(loader, wait=None):
    """Return the median time of ``next()`` in µs. *wait*: called before each, with the iterator."""
    iterator, spent = iter(loader), []
    for _ in range(CALLS):
        if wait is not None:
            wait(iterator)
        began = time.perf_counter()
        next(iterator)
        spent.append(time.perf_counter() - began)
    return 1e6 * statistics.median(spent)


def until_ready(iterator):
    while not iterator._ready():
        iterator._dispatcher.receive()


def main():
    print("| batch | torch, none | none | thread |\n|---|---:|---:|---:|")
    for name, batch in KINDS.items():
        given = {"batch_size": None, "collate_fn": same}
        torchs, ours = (
            median(Torchs(Ready(batch), **given)),
            median(DataLoader(Ready(batch), **given)),
        )
        threads = median(
            DataLoader(Ready(batch), num_workers=1, worker_method="thread", **given), until_ready
        )
        print(f"| {name} | {torchs:.0f} | {ours:.0f} | {threads:.0f} |")


if __name__ == "__main__":
    main()
