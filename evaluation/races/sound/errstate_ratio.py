"""Vegetation indices that divide by zero within numpy.errstate, which holds in one thread, and
prints with options.
"""

import numpy as np
from torch.utils.data import Dataset


class Indices(Dataset):
    def __init__(self, bands):
        self.bands = bands

    def __len__(self):
        return len(self.bands)

    def __getitem__(self, index):
        red, infrared = self.bands[index]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (infrared - red) / (infrared + red)
        with np.printoptions(precision=2 + index % 4):
            text = np.array2string(ratio[0, :3])
        return np.nan_to_num(ratio), text


dataset = Indices(np.random.default_rng(0).integers(0, 3, (300, 2, 16, 16)).astype(np.float32))
