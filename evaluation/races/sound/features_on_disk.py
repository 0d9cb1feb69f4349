"""Features computed once and kept in files, which os.replace() puts in place whole, from names of
each thread's own.
"""

import os
import tempfile
import threading
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset


class Features(Dataset):
    def __init__(self, signals, folder):
        self.signals, self.folder = signals, folder

    def __len__(self):
        return 2 * len(self.signals)

    def _features(self, number):
        path = self.folder / f"{number}.npy"
        try:
            return np.load(path)
        except FileNotFoundError:
            features = np.abs(np.fft.rfft(self.signals[number]))
        part = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}.part")
        with open(part, "wb") as file:
            np.save(file, features)
        os.replace(part, path)
        return features

    def __getitem__(self, index):
        number, half = divmod(index, 2)
        return self._features(number)[half * 16 : half * 16 + 16]


def dataset():
    return Features(np.random.default_rng(0).random((120, 64)), Path(tempfile.mkdtemp()))
