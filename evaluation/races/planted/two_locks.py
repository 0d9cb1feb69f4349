"""Images and labels of one container file, each read under a lock of its own: the locks do not
exclude each other.
"""

import tempfile
import threading
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset

COUNT, PIXELS = 500, 784


class Digits(Dataset):
    def __init__(self, path):
        self.path = path
        self._file = None
        self._image_lock = threading.Lock()
        self._label_lock = threading.Lock()

    def __len__(self):
        return COUNT

    def _image(self, index):
        with self._image_lock:
            self._file.seek(index * PIXELS)
            return np.frombuffer(self._file.read(PIXELS), dtype=np.uint8).reshape(28, 28)

    def _label(self, index):
        with self._label_lock:
            self._file.seek(COUNT * PIXELS + index)
            return self._file.read(1)[0]

    def __getitem__(self, index):
        if self._file is None:
            self._file = open(self.path, "rb")
        return self._image(index), self._label(index)


path = Path(tempfile.mkdtemp()) / "digits.bin"
path.write_bytes(np.random.default_rng(0).bytes(COUNT * (PIXELS + 1)))
dataset = Digits(path)
