"""Counts changes of reference counts that threads share,
by type of the object, in one batch of the loader.

Without the GIL, a thread changes the count of an object that another thread made by an atomic
operation on memory that both use. On many CPUs this costs more the more threads do it to the same
object. CPython needs ``counts.patch``, which counts these changes. Changes made by extension
modules other than CPython's own are not counted.

    docker/fetch-cpython 3.13 trixie /tmp/counting
    patch -p1 -d /tmp/counting/cpython <evaluation/references/counts.patch
    docker/build-cpython --twin ft --source /tmp/counting/cpython --prefix /tmp/counting/python
    --no-pgo FT_PYTHON=/tmp/counting/python/bin/python3.13t ./twins exec ft python -m
    evaluation.references.measure
"""

import ctypes
import warnings
from typing import Any

import torch

from ftloader import DataLoader

TYPES = 4096  # slots of counts.patch's table
WARM_UP, BATCHES = 300, 200  # more than are built ahead


class Count(ctypes.Structure):
    """A slot of the table: the address of a type, or 0, and the number of changes."""

    _fields_ = [("type", ctypes.c_ssize_t), ("number", ctypes.c_ssize_t)]


TABLE = (Count * TYPES).in_dll(ctypes.pythonapi, "_Py_shared_counts")
ON = ctypes.c_int.in_dll(ctypes.pythonapi, "_Py_shared_on")


class Integers(torch.utils.data.Dataset):
    """Endless dataset whose samples cost next to nothing."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: int) -> Any:
        return index


class Tensors(Integers):
    """Endless dataset of tensors of 64 KiB."""

    def __getitem__(self, index: int) -> Any:
        return torch.empty(2**14)


def changes(dataset: Integers, batch_size: int, threads: int) -> dict[str, float]:
    """Return the changes in a batch by the name of the objects' type."""
    batches = iter(
        DataLoader(dataset, batch_size=batch_size, num_workers=threads, worker_method="thread")
    )
    for _ in range(WARM_UP):
        next(batches)
    before = {slot.type: slot.number for slot in TABLE}
    ON.value = 1
    for _ in range(BATCHES):
        next(batches)
    ON.value = 0
    after = {slot.type: slot.number for slot in TABLE if slot.type}
    batches.close()
    return {
        ctypes.cast(kind, ctypes.py_object).value.__name__: (number - before.get(kind, 0)) / BATCHES
        for kind, number in after.items()
    }


warnings.simplefilter("ignore")  # more threads than CPUs
for dataset, batch_size in ((Integers(), 1024), (Tensors(), 64)):
    for threads in (1, 2, 8, 32, 64):
        found = changes(dataset, batch_size, threads)
        most = ", ".join(
            f"{name} {n:.0f}" for name, n in sorted(found.items(), key=lambda each: -each[1])[:12]
        )
        print(f"{threads} threads, {batch_size} samples: {sum(found.values()):.0f}: {most}")
