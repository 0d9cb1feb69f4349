"""MRI slices normalised into one scratch array (out=):
a thread overwrites what another one is still computing.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class Slices(Dataset):
    def __init__(self, slices):
        self.slices = slices
        self._scratch = np.empty(slices.shape[1:], np.float32)  # saves an allocation for each slice

    def __len__(self):
        return len(self.slices)

    def __getitem__(self, index):
        raw = self.slices[index]
        np.subtract(raw, raw.mean(), out=self._scratch, casting="unsafe")
        np.divide(self._scratch, raw.std() + 1e-6, out=self._scratch, casting="unsafe")
        np.clip(self._scratch, -3, 3, out=self._scratch)
        return torch.from_numpy(self._scratch.copy())


dataset = Slices(np.random.default_rng(0).integers(0, 1000, (400, 64, 64)).astype(np.int16))
