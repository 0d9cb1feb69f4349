"""Records of a file that each thread opens for itself, kept in a threading.local."""

import tempfile
import threading
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

RECORD = 512


class Records(Dataset):
    def __init__(self, path):
        self.path = path
        self._local = threading.local()

    def __len__(self):
        return self.path.stat().st_size // RECORD

    def _file(self):
        if not hasattr(self._local, "file"):
            self._local.file = open(self.path, "rb")
        return self._local.file

    def __getitem__(self, index):
        file = self._file()
        file.seek(index * RECORD)
        return np.frombuffer(file.read(RECORD), dtype=np.uint8)


path = Path(tempfile.mkdtemp()) / "records.bin"
path.write_bytes(np.random.default_rng(0).bytes(600 * RECORD))
dataset = Records(path)
