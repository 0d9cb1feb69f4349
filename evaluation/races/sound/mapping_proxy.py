"""Crops by settings that a MappingProxyType shows: each call takes a copy, and changes the copy."""

from types import MappingProxyType

import numpy as np
from torch.utils.data import Dataset

SETTINGS = MappingProxyType({"top": 0, "left": 0, "size": 8})


class Crops(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        settings = dict(SETTINGS)
        settings["top"] += index % 16
        settings["left"] += index % 11
        top, left, size = settings["top"], settings["left"], settings["size"]
        return self.images[index, top : top + size, left : left + size].copy()


dataset = Crops(np.random.default_rng(0).random((500, 32, 32)))
