"""MRI slices normalised in scratch arrays of a queue: a thread has the array for itself until it
puts it back.
"""

import queue

import numpy as np
import torch
from torch.utils.data import Dataset


class Slices(Dataset):
    def __init__(self, slices, buffers=4):
        self.slices = slices
        self._free = queue.SimpleQueue()
        for _ in range(buffers):
            self._free.put(np.empty(slices.shape[1:], np.float32))

    def __len__(self):
        return len(self.slices)

    def __getitem__(self, index):
        raw = self.slices[index]
        scratch = self._free.get()
        try:
            np.subtract(raw, raw.mean(), out=scratch, casting="unsafe")
            np.divide(scratch, raw.std() + 1e-6, out=scratch, casting="unsafe")
            return torch.from_numpy(scratch.copy())
        finally:
            self._free.put(scratch)


dataset = Slices(np.random.default_rng(0).integers(0, 1000, (400, 64, 64)).astype(np.int16))
