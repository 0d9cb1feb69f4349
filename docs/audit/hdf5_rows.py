"""Rows of an HDF5 file through h5py, which takes a lock of its own around every call.

./twins exec gil pip install --target packages h5py          # no wheel for 3.13t, but for 3.14t (PYTHON_SERIES=3.14)
PYTHONPATH=packages ./twins audit gil docs/audit/hdf5_rows.py:shared
PYTHONPATH=packages ./twins audit gil docs/audit/hdf5_rows.py:opened_late
"""

import tempfile
from pathlib import Path

import h5py
import numpy as np

ROWS = 64


def file() -> Path:
    path = Path(tempfile.mkdtemp(prefix="audit-")) / "rows.h5"
    with h5py.File(path, "w") as out:
        out["images"] = np.repeat(np.arange(ROWS, dtype=np.uint8), 1024).reshape(ROWS, 1024)
    return path


class Shared:
    """One file, opened before the threads start."""

    def __init__(self, path: Path):
        self.images = h5py.File(path, "r")["images"]

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return self.images[index]


class OpenedLate:
    """What tutorials advise for processes: opened by the first sample. Among threads several open it."""

    def __init__(self, path: Path):
        self.path = path
        self.file = None

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return self.file["images"][index]


def shared():
    return Shared(file())


def opened_late():
    return OpenedLate(file())
