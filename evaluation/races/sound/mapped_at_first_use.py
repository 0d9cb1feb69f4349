"""A memory map opened at first use, so that the dataset can be pickled:
two threads may open it, both rightly.
"""

import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset


class Features(Dataset):
    def __init__(self, path, length):
        self.path, self.length = path, length
        self._features = None

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        features = self._features
        if features is None:
            features = self._features = np.load(self.path, mmap_mode="r")
        return features[index] * np.float32(2)


path = Path(tempfile.mkdtemp()) / "features.npy"
np.save(path, np.random.default_rng(0).random((400, 64), dtype=np.float32))
dataset = Features(path, 400)
