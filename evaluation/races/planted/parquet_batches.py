"""Rows of a table that is read in record batches, forwards:
threads advance and restart the same iterator.
"""

import numpy as np
from torch.utils.data import Dataset

ROWS = 32


class Table(Dataset):
    def __init__(self, columns):
        self.columns = columns
        self._batches, self._number, self._batch = None, -1, None

    def __len__(self):
        return len(self.columns["id"])

    def _iter_batches(self):
        for start in range(0, len(self), ROWS):
            yield {name: values[start : start + ROWS] for name, values in self.columns.items()}

    def __getitem__(self, index):
        wanted, row = divmod(index, ROWS)
        if wanted < self._number or self._batches is None:
            self._batches, self._number = self._iter_batches(), -1
        while self._number < wanted:
            self._batch = next(self._batches)
            self._number += 1
        return {name: values[row] for name, values in self._batch.items()}


rng = np.random.default_rng(0)
dataset = Table(
    {
        "id": np.arange(640),
        "text": np.array([f"row {i}" for i in range(640)]),
        "score": rng.random(640),
    }
)
