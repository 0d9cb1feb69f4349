"""Rows of a columnar file: the footer is read once, and each access opens the file and reads its
row group's chunks.
"""

import json
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

ROWS = 32


class Table(Dataset):
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            file.seek(-4, 2)
            (size,) = struct.unpack("<I", file.read())
            file.seek(-4 - size, 2)
            self.footer = json.loads(file.read(size))

    def __len__(self):
        return len(self.footer) * ROWS

    def __getitem__(self, index):
        group, row = divmod(index, ROWS)
        with open(self.path, "rb") as file:
            sample = {}
            for name, (offset, size) in self.footer[group].items():
                file.seek(offset)
                sample[name] = np.frombuffer(zlib.decompress(file.read(size)))[row]
            return sample


path, rng, footer = Path(tempfile.mkdtemp()) / "table.bin", np.random.default_rng(0), []
with open(path, "wb") as file:
    for _ in range(12):
        footer.append({})
        for name in ("price", "volume"):
            chunk = zlib.compress(rng.random(ROWS).tobytes(), 1)
            footer[-1][name] = file.tell(), len(chunk)
            file.write(chunk)
    data = json.dumps(footer).encode()
    file.write(data + struct.pack("<I", len(data)))
dataset = Table(path)
