"""Audio clips of one PCM file: all threads move the position of one handle,
so clips come from wrong places.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import Dataset

CLIP = 1600


class Clips(Dataset):
    def __init__(self, path):
        self.path = path
        self._file = None

    def __len__(self):
        return self.path.stat().st_size // (2 * CLIP)

    def __getitem__(self, index):
        if self._file is None:
            self._file = open(self.path, "rb")  # after the fork, so that each worker has its own
        self._file.seek(2 * CLIP * index)
        pcm = np.frombuffer(self._file.read(2 * CLIP), dtype=np.int16)
        return torch.from_numpy(pcm / 32768), index % 10


path = Path(tempfile.mkdtemp()) / "speech.pcm"
np.random.default_rng(0).integers(-3000, 3000, 400 * CLIP, dtype=np.int16).tofile(path)
dataset = Clips(path)
