"""Volumes of a NumPy memory map, opened read-only:
slices are copied out of it, and nothing is written.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset


class Slices(Dataset):
    def __init__(self, path):
        self.volumes = np.load(path, mmap_mode="r")

    def __len__(self):
        return self.volumes.shape[0] * self.volumes.shape[1]

    def __getitem__(self, index):
        volume, z = divmod(index, self.volumes.shape[1])
        return torch.from_numpy(np.array(self.volumes[volume, z], dtype=np.float32)) / 4095


path = Path(tempfile.mkdtemp()) / "volumes.npy"
np.save(path, np.random.default_rng(0).integers(0, 4096, (30, 16, 32, 32), dtype=np.int16))
dataset = Slices(path)
