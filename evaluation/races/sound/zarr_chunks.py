"""Patches of an array in a directory of compressed chunks;
chunks that are not there have the fill value.
"""

import json
import tempfile
import zlib
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset


class Array:
    def __init__(self, folder):
        self.folder = folder
        self.meta = json.loads((folder / ".zarray").read_text())

    def chunk(self, y, x):
        try:
            data = zlib.decompress((self.folder / f"{y}.{x}").read_bytes())
        except FileNotFoundError:
            return np.full(self.meta["chunks"], self.meta["fill_value"], dtype=self.meta["dtype"])
        return np.frombuffer(data, dtype=self.meta["dtype"]).reshape(self.meta["chunks"])


class Patches(Dataset):
    """Pairs of chunks that are next to each other."""

    def __init__(self, folder, side):
        self.array, self.side = Array(folder), side

    def __len__(self):
        return self.side * (self.side - 1)

    def __getitem__(self, index):
        y, x = divmod(index, self.side - 1)
        return np.concatenate([self.array.chunk(y, x), self.array.chunk(y, x + 1)], axis=1)


folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
(folder / ".zarray").write_text(json.dumps({"chunks": [8, 8], "dtype": "<f4", "fill_value": -1.0}))
for y in range(12):
    for x in range(12):
        if (y + x) % 3:
            (folder / f"{y}.{x}").write_bytes(
                zlib.compress(rng.random((8, 8), dtype=np.float32).tobytes())
            )
dataset = Patches(folder, 12)
