"""Slices of CT volumes through a reader with a current volume:
a thread reads the volume another one selected.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

VOLUMES, DEPTH = 40, 16


class Reader:
    """As vendors' SDKs have it: select a volume, then ask for its slices."""

    def __init__(self, path):
        self._volumes = np.load(path, mmap_mode="r")
        self._current = 0

    def select(self, volume):
        self._current = volume

    def slice(self, z):
        return np.array(self._volumes[self._current, z])


class Slices(Dataset):
    def __init__(self, path):
        self.reader = Reader(path)

    def __len__(self):
        return VOLUMES * DEPTH

    def __getitem__(self, index):
        volume, z = divmod(index, DEPTH)
        self.reader.select(volume)
        pixels = self.reader.slice(z)
        return torch.from_numpy(pixels).float() / 4095


path = Path(tempfile.mkdtemp()) / "volumes.npy"
np.save(path, np.random.default_rng(0).integers(0, 4096, (VOLUMES, DEPTH, 32, 32), dtype=np.int16))
dataset = Slices(path)
