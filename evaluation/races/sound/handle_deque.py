"""Records of a file with a pool of handles: a thread takes one, or opens one where none is left,
and puts it back.
"""

import collections
import os
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

RECORD = 200


class Records(Dataset):
    def __init__(self, path):
        self.path = path
        self._idle = collections.deque()

    def __len__(self):
        return self.path.stat().st_size // RECORD

    def __getitem__(self, index):
        try:
            owner, file = self._idle.pop()
        except IndexError:
            owner, file = os.getpid(), open(self.path, "rb")
        if owner != os.getpid():  # it was opened before a fork
            owner, file = os.getpid(), open(self.path, "rb")
        file.seek(index * RECORD)
        record = np.frombuffer(file.read(RECORD), dtype=np.uint8)
        self._idle.append((owner, file))
        return record


path = Path(tempfile.mkdtemp()) / "records.bin"
path.write_bytes(np.random.default_rng(0).bytes(400 * RECORD))
dataset = Records(path)
