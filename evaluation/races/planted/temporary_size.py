"""Images in two sizes: the size is changed for a while and put back,
so another thread's size stays.
"""

import contextlib

import numpy as np
import torch
from torch.nn.functional import interpolate
from torch.utils.data import Dataset


class TwoSizes(Dataset):
    def __init__(self, images):
        self.images = images
        self.size = 16

    @contextlib.contextmanager
    def resized(self, size):
        before = self.size
        self.size = size
        try:
            yield
        finally:
            self.size = before

    def __len__(self):
        return len(self.images)

    def view(self, index):
        return interpolate(self.images[index : index + 1], size=self.size)[0]

    def __getitem__(self, index):
        with self.resized(32):
            large = self.view(index)
        return self.view(index), large


dataset = TwoSizes(
    torch.from_numpy(np.random.default_rng(0).random((300, 1, 24, 24), dtype=np.float32))
)
