"""Decoded shards in a dict that is never changed but replaced by a larger one;
a lost entry is decoded again.
"""

import zlib

import numpy as np
from torch.utils.data import Dataset

ROWS = 20


class Shards(Dataset):
    def __init__(self, packed):
        self.packed = packed
        self._decoded = {}

    def __len__(self):
        return len(self.packed) * ROWS

    def __getitem__(self, index):
        number, row = divmod(index, ROWS)
        shard = self._decoded.get(number)
        if shard is None:
            shard = np.frombuffer(zlib.decompress(self.packed[number])).reshape(ROWS, -1)
            self._decoded = {**self._decoded, number: shard}
        return shard[row].copy()


rng = np.random.default_rng(0)
dataset = Shards([zlib.compress(rng.random((ROWS, 16)).tobytes()) for _ in range(30)])
