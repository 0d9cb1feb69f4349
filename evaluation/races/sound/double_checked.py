"""Double-checked locking done right: the table is complete before the attribute gets it."""

import threading

import numpy as np
from torch.utils.data import Dataset


class MelFeatures(Dataset):
    def __init__(self, spectra):
        self.spectra = spectra
        self._lock = threading.Lock()
        self._bank = None

    def _build(self):
        bank = np.zeros((40, self.spectra.shape[1]))
        for band in range(40):
            for column in range(band * 3, band * 3 + 9):
                bank[band, column] = 1 - abs(column - band * 3 - 4) / 5
        return bank

    def __len__(self):
        return len(self.spectra)

    def __getitem__(self, index):
        if self._bank is None:
            with self._lock:
                if self._bank is None:
                    self._bank = self._build()
        return self._bank @ self.spectra[index]


def dataset():
    return MelFeatures(np.random.default_rng(0).random((400, 129)))
