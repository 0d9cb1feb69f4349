"""CT slices windowed for an organ: level and width are module globals, which another thread sets
for another organ.
"""

import numpy as np
import torch
from torch.utils.data import Dataset

PRESETS = {"lung": (-600, 1500), "liver": (30, 150), "bone": (400, 1800)}
ORGANS = list(PRESETS)
level, width = PRESETS["liver"]


def use_window(organ):
    global level, width
    level, width = PRESETS[organ]


def windowed(pixels):
    return np.clip((pixels - level) / width + 0.5, 0, 1).astype(np.float32)


class CtSlices(Dataset):
    def __init__(self, count):
        self.pixels = np.random.default_rng(0).integers(
            -1000, 1000, (count, 48, 48), dtype=np.int16
        )

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, index):
        use_window(ORGANS[index % 3])
        pixels = self.pixels[index].astype(np.float64)
        return torch.from_numpy(windowed(pixels)), index % 3


dataset = CtSlices(500)
