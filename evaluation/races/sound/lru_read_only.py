"""Volumes that functools.lru_cache keeps, as arrays that cannot be written;
a volume may be made twice.
"""

from functools import lru_cache

import numpy as np
from torch.utils.data import Dataset

SLICES = 12


@lru_cache(maxsize=8)
def volume(patient):
    data = np.random.default_rng(patient).integers(-1000, 2000, (SLICES, 16, 16), dtype=np.int16)
    data.setflags(write=False)
    return data


class Slices(Dataset):
    def __init__(self, patients):
        self.patients = patients

    def __len__(self):
        return self.patients * SLICES

    def __getitem__(self, index):
        patient, number = divmod(index, SLICES)
        return volume(patient)[number] / np.float32(1000)


dataset = Slices(20)
