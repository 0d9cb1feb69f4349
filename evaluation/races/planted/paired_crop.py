"""A crop drawn once for image and mask: it is kept in the transform,
so the mask gets another thread's window.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class Crop:
    """Draws a window, then cuts it out of as many arrays as it is called with."""

    def __init__(self, size):
        self.size = size

    def draw(self, shape, rng):
        self.top = int(rng.integers(shape[0] - self.size))
        self.left = int(rng.integers(shape[1] - self.size))

    def __call__(self, array):
        return array[self.top : self.top + self.size, self.left : self.left + self.size].copy()


class Segmentation(Dataset):
    def __init__(self, images, transform):
        self.images = images
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        mask = image > 128
        self.transform.draw(image.shape, np.random.default_rng(index))
        return torch.from_numpy(self.transform(image)), torch.from_numpy(self.transform(mask))


dataset = Segmentation(
    np.random.default_rng(0).integers(0, 256, (500, 48, 48), dtype=np.uint8), Crop(32)
)
