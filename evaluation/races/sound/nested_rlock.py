"""Images and labels of one container through methods that call each other, all under one RLock."""

import tempfile
import threading
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

COUNT, PIXELS = 500, 784


class Digits(Dataset):
    def __init__(self, path):
        self.path = path
        self.file = None
        self._lock = threading.RLock()

    def __len__(self):
        return COUNT

    def _read(self, offset, size):
        with self._lock:
            if self.file is None:
                self.file = open(self.path, "rb")
            self.file.seek(offset)
            return self.file.read(size)

    def _image(self, index):
        with self._lock:
            if self._read(0, 4) != b"DGTS":
                raise ValueError("not a container of digits")
            return np.frombuffer(self._read(4 + index * PIXELS, PIXELS), dtype=np.uint8)

    def __getitem__(self, index):
        return self._image(index), self._read(4 + COUNT * PIXELS + index, 1)[0]


path = Path(tempfile.mkdtemp()) / "digits.bin"
path.write_bytes(b"DGTS" + np.random.default_rng(0).bytes(COUNT * (PIXELS + 1)))
dataset = Digits(path)
