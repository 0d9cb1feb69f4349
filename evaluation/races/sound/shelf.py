"""Samples in a shelf over dbm.dumb, opened for reading:
each access opens the data file for itself.
"""

import dbm.dumb
import shelve
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset


class Samples(Dataset):
    def __init__(self, path):
        self.shelf = shelve.Shelf(dbm.dumb.open(path, "r"))

    def __len__(self):
        return len(self.shelf)

    def __getitem__(self, index):
        row = self.shelf[str(index)]
        return torch.from_numpy(row["pixels"]), row["label"]


path, rng = tempfile.mkdtemp() + "/samples", np.random.default_rng(0)
with shelve.Shelf(dbm.dumb.open(path, "n")) as shelf:
    for number in range(200):
        shelf[str(number)] = {
            "pixels": rng.integers(0, 256, (8, 8), dtype=np.uint8),
            "label": f"class {number % 7}",
        }
dataset = Samples(path)
