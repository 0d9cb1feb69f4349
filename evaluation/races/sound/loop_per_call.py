"""Ranges of an object store, got by asyncio.run: each call has an event loop of its own."""

import asyncio

import numpy as np
from torch.utils.data import Dataset


class Ranges(Dataset):
    def __init__(self, data, length):
        self.data, self.length = data, length

    def __len__(self):
        return len(self.data) // self.length

    async def _part(self, first, last):
        await asyncio.sleep(0)
        return self.data[first:last]

    async def _sample(self, index):
        first, middle = index * self.length, index * self.length + self.length // 2
        return await asyncio.gather(
            self._part(first, middle), self._part(middle, first + self.length)
        )

    def __getitem__(self, index):
        return np.frombuffer(b"".join(asyncio.run(self._sample(index))), dtype=np.uint8)


dataset = Ranges(np.random.default_rng(0).bytes(200 * 128), 128)
