"""Point clouds with binary headers, which are copied into one ctypes structure
and read from there.
"""

import ctypes

import numpy as np
import torch
from torch.utils.data import Dataset


class Header(ctypes.LittleEndianStructure):
    _fields_ = [("count", ctypes.c_uint32), ("scale", ctypes.c_float), ("offset", ctypes.c_float)]


class Clouds(Dataset):
    def __init__(self, files):
        self.files = files
        self.header = Header()

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        data = self.files[index]
        ctypes.memmove(ctypes.addressof(self.header), data, ctypes.sizeof(Header))
        points = np.frombuffer(
            data, np.int16, 3 * self.header.count, ctypes.sizeof(Header)
        ).reshape(-1, 3)
        return torch.from_numpy(
            points * np.float32(self.header.scale) + np.float32(self.header.offset)
        )


def file(number, rng):
    count = 20 + number % 30
    header = Header(count, 0.01 * (1 + number), float(number))
    return (
        bytes(header) + rng.integers(-999, 999, (count, 3), dtype=np.int16).tobytes() + bytes(600)
    )


rng = np.random.default_rng(0)
dataset = Clouds([file(number, rng) for number in range(300)])
