"""A table unpacked at the first access, which then frees the packed one:
another thread finds neither.
"""

import zlib

import numpy as np
from torch.utils.data import Dataset

ROWS, COLUMNS = 600, 128


class Unpacked(Dataset):
    def __init__(self, packed):
        self._packed = packed

    def __getattr__(self, name):
        if name != "table":
            raise AttributeError(name)
        rows = np.frombuffer(zlib.decompress(self._packed), dtype=np.float64)
        self.table = rows.reshape(ROWS, COLUMNS)
        del self._packed
        return self.table

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        return self.table[index] * 2


packed = zlib.compress(np.random.default_rng(0).random((ROWS, COLUMNS)).tobytes())


def dataset():
    return Unpacked(packed)
