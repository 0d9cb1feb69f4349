"""A crop for image and mask that keeps what it drew:
each call draws with a copy of the transform.
"""

import copy
import random

import numpy as np
from torch.utils.data import Dataset


class Crop:
    def __init__(self, size):
        self.size = size

    def draw(self, seed):
        self.top = random.Random(seed).randrange(32 - self.size)

    def __call__(self, image):
        return image[self.top : self.top + self.size].copy()


class Segmented(Dataset):
    def __init__(self, images):
        self.images = images
        self.crop = Crop(12)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        crop = copy.copy(self.crop)
        crop.draw(index)
        return crop(self.images[index]), crop(self.images[index] > 0.5)


dataset = Segmented(np.random.default_rng(0).random((500, 32, 32)))
