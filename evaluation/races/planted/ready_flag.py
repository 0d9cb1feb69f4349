"""Double-checked locking that raises the flag before the table is there:
other threads go on and find None.
"""

import threading

import numpy as np
from torch.utils.data import Dataset


class MelFeatures(Dataset):
    def __init__(self, spectra):
        self.spectra = spectra
        self._lock = threading.Lock()
        self._ready = False
        self._bank = None

    def _build(self):
        bank = np.zeros((40, self.spectra.shape[1]))
        for band in range(40):
            for column in range(band * 3, band * 3 + 9):
                bank[band, column] = 1 - abs(column - band * 3 - 4) / 5
        self._bank = bank

    def __len__(self):
        return len(self.spectra)

    def __getitem__(self, index):
        if not self._ready:
            with self._lock:
                if not self._ready:
                    self._ready = True
                    self._build()
        return self._bank @ self.spectra[index]


def dataset():
    return MelFeatures(np.random.default_rng(0).random((400, 129)))
