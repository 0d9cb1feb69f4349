"""Embeddings read with readinto() into one bytearray:
another thread reads its own before the copy is made.
"""

import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

WIDTH = 512


class Embeddings(Dataset):
    def __init__(self, path):
        self.path = path
        self._buffer = bytearray(4 * WIDTH)

    def __len__(self):
        return self.path.stat().st_size // (4 * WIDTH)

    def __getitem__(self, index):
        with open(self.path, "rb", buffering=0) as file:
            file.seek(index * 4 * WIDTH)
            file.readinto(self._buffer)
        vector = np.frombuffer(self._buffer, dtype=np.float32)
        return vector / np.linalg.norm(vector)


path = Path(tempfile.mkdtemp()) / "embeddings.f32"
np.random.default_rng(0).random(500 * WIDTH, dtype=np.float32).tofile(path)
dataset = Embeddings(path)
