"""Reproducible crops by np.random.seed(index): threads reseed the one global generator
while others draw.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class RandomCrops(Dataset):
    """The same crop of an image in each epoch, for validation."""

    def __init__(self, images, size=24):
        self.images = images
        self.size = size

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        np.random.seed(index)
        image = self.images[index]
        top, left = np.random.randint(0, image.shape[0] - self.size, 2)
        crop = image[top : top + self.size, left : left + self.size].astype(np.float32)
        if np.random.rand() < 0.5:
            crop = crop[:, ::-1]
        return torch.from_numpy(crop + np.random.normal(0, 2, crop.shape).astype(np.float32))


dataset = RandomCrops(np.random.default_rng(0).integers(0, 256, (500, 40, 40), dtype=np.uint8))
