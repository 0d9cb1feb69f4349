"""Spectra in decibels, zero where they are not finite:
np.seterr is of a context, which workers have too.
"""

import numpy as np
from torch.utils.data import Dataset

np.seterr(divide="raise", invalid="raise")


class Decibels(Dataset):
    def __init__(self, spectra):
        self.spectra = spectra

    def __len__(self):
        return len(self.spectra)

    def __getitem__(self, index):
        try:
            return 20 * np.log10(self.spectra[index])
        except FloatingPointError:
            return np.zeros_like(self.spectra[index])


spectra = np.random.default_rng(0).random((300, 64))
spectra[::3, 5] = 0
dataset = Decibels(spectra)
