r"""Counts changes of reference counts that threads share,
by type of the object, in one batch of the loader.

Without the GIL, a thread changes the count of an object that another thread made by an atomic
operation on memory that both use. On many CPUs this costs more the more threads do it to the same
object. CPython needs ``counts.patch``, which counts these changes. Changes made by extension
modules other than CPython's own are not counted.

    docker/fetch-cpython 3.13 trixie /tmp/counting
    patch -p1 -d /tmp/counting/cpython <evaluation/references/counts.patch
    docker/build-cpython --twin ft --source /tmp/counting/cpython --prefix /tmp/counting/python \
        --no-pgo
    FT_PYTHON=/tmp/counting/python/bin/python3.13t ./twins exec ft \
        python -m evaluation.references.measure
"""

import ctypes
import warnings
from typing import Any

import torch

from ftbench.scenarios.text import DOCUMENTS, Texts
from ftloader import DataLoader

TYPES = 4096  # slots of counts.patch's table
WARM_UP = 300  # batches, more than are built ahead


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


class Words(Texts, Integers):
    """Endless dataset of tokenised texts: work in Python on one vocabulary."""

    def __getitem__(self, index: int) -> Any:
        return super().__getitem__(index % DOCUMENTS)

    __len__ = Integers.__len__


def changes(loader: DataLoader, counted: int) -> dict[str, float]:
    """Return the changes in a batch by the name of the objects' type; the mean of *counted*
    batches.
    """
    batches = iter(loader)
    for _ in range(min(WARM_UP, 10 * counted)):
        next(batches)
    before = {slot.type: slot.number for slot in TABLE}
    ON.value = 1
    for _ in range(counted):
        next(batches)
    ON.value = 0
    after = {slot.type: slot.number for slot in TABLE if slot.type}
    batches.close()
    return {
        ctypes.cast(kind, ctypes.py_object).value.__name__: (number - before.get(kind, 0)) / counted
        for kind, number in after.items()
    }


def main() -> None:
    """Print a line for each dataset and number of threads."""
    warnings.simplefilter("ignore")  # more threads than CPUs
    for dataset, batch_size, counted, copies in (
        (Integers(), 1024, 200, False),
        (Tensors(), 64, 200, False),
        (Words(), 32, 40, False),
        (Words(), 32, 40, True),
    ):
        for threads in (1, 2, 8, 32):
            loader = DataLoader(
                dataset,
                batch_size=batch_size,
                num_workers=threads,
                worker_method="thread",
                copy_dataset=copies,
            )
            by_type = changes(loader, counted)
            most = sorted(by_type.items(), key=lambda entry: -entry[1])[:12]
            listed = ", ".join(f"{name} {number:.0f}" for name, number in most)
            shared = "a copy each" if copies else "shared"
            print(
                f"{type(dataset).__name__}, {shared}, {threads} threads, {batch_size} samples: "
                f"{sum(by_type.values()):.0f}: {listed}",
                flush=True,
            )


if __name__ == "__main__":
    main()
