"""Decoded images cached within a budget: a thread adds one
while another sums over the dict, a RuntimeError.
"""

import zlib

import numpy as np
from torch.utils.data import Dataset

BUDGET = 500_000


class Cached(Dataset):
    def __init__(self, packed):
        self.packed = packed
        self._cache = {}

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        image = self._cache.get(index)
        if image is None:
            image = np.frombuffer(zlib.decompress(self.packed[index]), dtype=np.uint8).reshape(
                32, 32
            )
            if sum(cached.nbytes for cached in self._cache.values()) > BUDGET:
                self._cache.clear()
            self._cache[index] = image
        return image


rng = np.random.default_rng(0)
dataset = Cached([zlib.compress(rng.bytes(1024)) for _ in range(800)])
