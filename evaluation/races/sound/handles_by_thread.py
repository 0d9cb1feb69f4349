"""Records of a file with a dict of handles, by process and thread,
so that each has its own after a fork, too.
"""

import os
import tempfile
import threading
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

RECORD = 256


class Records(Dataset):
    def __init__(self, path):
        self.path = path
        self._handles = {}

    def __len__(self):
        return self.path.stat().st_size // RECORD

    def __getitem__(self, index):
        key = os.getpid(), threading.get_ident()
        handle = self._handles.get(key)
        if handle is None:
            handle = self._handles[key] = open(self.path, "rb")
        handle.seek(index * RECORD)
        return np.frombuffer(handle.read(RECORD), dtype=np.uint8)


path = Path(tempfile.mkdtemp()) / "records.bin"
path.write_bytes(np.random.default_rng(0).bytes(400 * RECORD))
dataset = Records(path)
