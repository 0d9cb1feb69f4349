"""Recordings unpacked to a temporary file named by the process:
threads of one process write the same file.
"""

import os
import tempfile
import zlib

import numpy as np
from torch.utils.data import Dataset


def decode(path):
    """Stands for a program that takes file names only."""
    return np.fromfile(path, dtype=np.float32)


class Recordings(Dataset):
    def __init__(self, packed):
        self.packed = packed
        self.folder = tempfile.mkdtemp()

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        path = os.path.join(self.folder, f"recording-{os.getpid()}.raw")
        with open(path, "wb") as file:
            file.write(zlib.decompress(self.packed[index]))
        return decode(path)


rng = np.random.default_rng(0)
dataset = Recordings(
    [zlib.compress(rng.random(500, dtype=np.float32).tobytes()) for _ in range(300)]
)
