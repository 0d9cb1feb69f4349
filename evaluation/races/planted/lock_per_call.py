"""Records of fixed size under a lock that each call makes itself: it locks out nobody, and the
position is shared.
"""

import tempfile
import threading
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

RECORD = 512


class Records(Dataset):
    def __init__(self, path):
        self.path = path
        self._file = None

    def __len__(self):
        return self.path.stat().st_size // RECORD

    def __getitem__(self, index):
        if self._file is None:
            self._file = open(self.path, "rb")
        lock = threading.Lock()  # an attribute could not be pickled
        with lock:
            self._file.seek(index * RECORD)
            return np.frombuffer(self._file.read(RECORD), dtype=np.uint8)


path = Path(tempfile.mkdtemp()) / "records.bin"
path.write_bytes(np.random.default_rng(0).bytes(600 * RECORD))
dataset = Records(path)
