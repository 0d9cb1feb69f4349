"""Texts decompressed by a subclass of threading.local,
whose __init__ runs once in each thread that uses it.
"""

import threading
import zlib

import numpy as np
from torch.utils.data import Dataset


class Workspace(threading.local):
    def __init__(self, size):
        self.buffer = np.empty(size, dtype=np.uint8)
        self.histogram = np.zeros(256, dtype=np.int64)


class Histograms(Dataset):
    def __init__(self, packed, size):
        self.packed = packed
        self.workspace = Workspace(size)

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        workspace = self.workspace
        workspace.buffer[:] = np.frombuffer(zlib.decompress(self.packed[index]), dtype=np.uint8)
        workspace.histogram[:] = 0
        np.add.at(workspace.histogram, workspace.buffer, 1)
        return workspace.histogram.copy()


rng = np.random.default_rng(0)
dataset = Histograms([zlib.compress(rng.bytes(500)) for _ in range(200)], 500)
