"""Records of a memory map by seek() and read(): the map has one position,
which the threads share.
"""

import mmap
import struct
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset


class Records(Dataset):
    """Each record is its length and its bytes."""

    def __init__(self, path, offsets):
        self.offsets = offsets
        with open(path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self):
        return len(self.offsets)

    def __getitem__(self, index):
        self._map.seek(self.offsets[index])
        (length,) = struct.unpack("<I", self._map.read(4))
        return np.frombuffer(self._map.read(length), dtype=np.uint8)


path = Path(tempfile.mkdtemp()) / "records.bin"
rng, offsets = np.random.default_rng(0), []
with open(path, "wb") as file:
    for number in range(600):
        offsets.append(file.tell())
        file.write(struct.pack("<I", 100 + number) + rng.bytes(100 + number))
dataset = Records(path, offsets)
