"""Patches of a chunked array, decoded chunks in an OrderedDict by last use and size,
without a lock.
"""

import zlib
from collections import OrderedDict

import numpy as np
from torch.utils.data import Dataset

CHUNK = 16


class LRUStore:
    def __init__(self, store, max_size):
        self.store, self.max_size = store, max_size
        self.current_size = 0
        self.cache = OrderedDict()

    def __getitem__(self, key):
        if key in self.cache:
            self.cache.move_to_end(key)
            return self.cache[key]
        value = zlib.decompress(self.store[key])
        while self.current_size + len(value) > self.max_size:
            _, oldest = self.cache.popitem(last=False)
            self.current_size -= len(oldest)
        self.cache[key] = value
        self.current_size += len(value)
        return value


class Patches(Dataset):
    def __init__(self, store, side):
        self.side = side
        self.chunks = LRUStore(store, max_size=10 * 4 * CHUNK * CHUNK)

    def __len__(self):
        return self.side * self.side * 4

    def __getitem__(self, index):
        chunk, corner = divmod(index, 4)
        data = np.frombuffer(
            self.chunks[f"{chunk // self.side}.{chunk % self.side}"], dtype=np.float32
        )
        y, x = 8 * (corner // 2), 8 * (corner % 2)
        return data.reshape(CHUNK, CHUNK)[y : y + 8, x : x + 8].copy()


rng = np.random.default_rng(0)
store = {
    f"{y}.{x}": zlib.compress(rng.random((CHUNK, CHUNK), dtype=np.float32), 1)
    for y in range(8)
    for x in range(8)
}
dataset = Patches(store, 8)
