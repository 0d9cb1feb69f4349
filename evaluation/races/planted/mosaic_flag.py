"""Mosaics of four images: a flag tells the inner calls to give plain images, and other threads'
calls as well.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class Mosaics(Dataset):
    def __init__(self, images):
        self.images = images
        self.plain = False

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index].astype(np.float32) / 255
        if self.plain:
            return image
        self.plain = True
        a, b, c = (self[(index * step + 1) % len(self)] for step in (3, 7, 11))
        self.plain = False
        return torch.from_numpy(np.block([[image, a], [b, c]]))


dataset = Mosaics(np.random.default_rng(0).integers(0, 256, (400, 24, 24), dtype=np.uint8))
