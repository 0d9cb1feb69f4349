"""Recordings unpacked to temporary files, a new one with a name of its own for each sample."""

import tempfile
import zlib

import numpy as np
from torch.utils.data import Dataset


class Recordings(Dataset):
    def __init__(self, packed):
        self.packed = packed

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        with tempfile.NamedTemporaryFile(suffix=".raw") as file:
            file.write(zlib.decompress(self.packed[index]))
            file.flush()
            return np.fromfile(file.name, dtype=np.float32)


rng = np.random.default_rng(0)
dataset = Recordings(
    [zlib.compress(rng.random(500, dtype=np.float32).tobytes()) for _ in range(300)]
)
