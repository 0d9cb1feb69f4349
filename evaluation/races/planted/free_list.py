"""Volumes resampled in scratch arrays of a free list:
two threads see that one is left, and both take it.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class Resampled(Dataset):
    def __init__(self, volumes):
        self.volumes = volumes
        self._free = []

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, index):
        if self._free:
            scratch = self._free.pop()
        else:
            scratch = np.empty((16, 16))
        np.add(self.volumes[index][::2, ::2], self.volumes[index][1::2, 1::2], out=scratch)
        result = torch.from_numpy(scratch / 2)
        self._free.append(scratch)
        return result


dataset = Resampled(np.random.default_rng(0).random((500, 32, 32)))
