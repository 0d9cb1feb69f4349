"""Rows of shards, of which the last is kept: its number and its rows are two attributes, set one
after the other.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

SHARDS, ROWS = 30, 20


class Sharded(Dataset):
    def __init__(self, folder):
        self.folder = folder
        self._number = None
        self._rows = None

    def __len__(self):
        return SHARDS * ROWS

    def __getitem__(self, index):
        number, row = divmod(index, ROWS)
        if number != self._number:
            self._rows = np.load(self.folder / f"{number}.npy")
            self._number = number
        return torch.from_numpy(self._rows[row])


folder = Path(tempfile.mkdtemp())
for number in range(SHARDS):
    np.save(folder / f"{number}.npy", np.random.default_rng(number).random((ROWS, 16)))
dataset = Sharded(folder)
