"""Records of one file: opening, seek and read happen under one and the same lock."""

import tempfile
import threading
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

RECORD = 512


class Records(Dataset):
    def __init__(self, path):
        self.path = path
        self._lock = threading.Lock()
        self._file = None

    def __len__(self):
        return self.path.stat().st_size // RECORD

    def __getitem__(self, index):
        with self._lock:
            if self._file is None:
                self._file = open(self.path, "rb")
            self._file.seek(index * RECORD)
            data = self._file.read(RECORD)
        return np.frombuffer(data, dtype=np.uint8)


path = Path(tempfile.mkdtemp()) / "records.bin"
path.write_bytes(np.random.default_rng(0).bytes(600 * RECORD))
dataset = Records(path)
