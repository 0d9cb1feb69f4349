"""Slices of gzipped volumes whose handles stay open as in an array proxy:
threads share their positions.
"""

import gzip
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

SHAPE = (16, 24, 24)


class ArrayProxy:
    """Reads slices of a volume when they are asked for."""

    def __init__(self, path):
        self.path = path
        self._file = None

    def __getitem__(self, number):
        if self._file is None:
            self._file = gzip.open(self.path)
        size = 2 * SHAPE[1] * SHAPE[2]
        self._file.seek(352 + number * size)
        return np.frombuffer(self._file.read(size), dtype=np.int16).reshape(SHAPE[1:])


class Slices(Dataset):
    def __init__(self, folder):
        self.volumes = [ArrayProxy(path) for path in sorted(folder.glob("*.nii.gz"))]

    def __len__(self):
        return len(self.volumes) * SHAPE[0]

    def __getitem__(self, index):
        volume, number = divmod(index, SHAPE[0])
        return self.volumes[volume][number].astype(np.float32)


folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
for patient in range(6):
    with gzip.open(folder / f"{patient}.nii.gz", "wb", compresslevel=1) as file:
        file.write(bytes(352) + rng.integers(-1000, 2000, SHAPE, dtype=np.int16).tobytes())
dataset = Slices(folder)
