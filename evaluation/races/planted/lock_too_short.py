"""Point clouds of one file: the lock covers the seek but not the reads that follow,
which other seeks disturb.
"""

import tempfile
import threading
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

CLOUD = 300 * 4


class Clouds(Dataset):
    def __init__(self, path):
        self.path = path
        self._lock = threading.Lock()
        self._file = None

    def __len__(self):
        return self.path.stat().st_size // CLOUD

    def __getitem__(self, index):
        with self._lock:
            if self._file is None:
                self._file = open(self.path, "rb")
            self._file.seek(index * CLOUD)
        return np.frombuffer(self._file.read(CLOUD), dtype=np.float32).reshape(100, 3)


path = Path(tempfile.mkdtemp()) / "clouds.bin"
np.random.default_rng(0).random(400 * 300, dtype=np.float32).tofile(path)
dataset = Clouds(path)
