"""Samples in a ring of buffers, enough for one batch: with several threads a buffer is taken twice,
or too early.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class Ring:
    """Buffers used in turn. A batch of up to `size` samples is collated
    before any of them is used again.
    """

    def __init__(self, size, shape):
        self._buffers = [np.empty(shape, np.float32) for _ in range(size)]
        self._next = 0

    def take(self):
        buffer = self._buffers[self._next]
        self._next = (self._next + 1) % len(self._buffers)
        return buffer


class Patches(Dataset):
    def __init__(self, scan, batch_size=32):
        self.scan = scan
        self.ring = Ring(batch_size, (16, 16))

    def __len__(self):
        return 600

    def __getitem__(self, index):
        y, x = divmod(index, 30)
        patch = self.ring.take()
        np.multiply(self.scan[y * 4 : y * 4 + 16, x * 4 : x * 4 + 16], 1 / 255, out=patch)
        return torch.from_numpy(patch)


dataset = Patches(np.random.default_rng(0).integers(0, 256, (100, 140)))
