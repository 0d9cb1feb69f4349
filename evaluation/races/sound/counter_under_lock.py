"""Images with a count of loads and a running mean, both changed under a lock."""

import threading

import numpy as np
import torch
from torch.utils.data import Dataset


class Counted(Dataset):
    def __init__(self, images):
        self.images = images
        self.seen, self.mean = 0, 0.0
        self._lock = threading.Lock()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        brightness = float(image.mean())
        with self._lock:
            self.seen += 1
            self.mean += (brightness - self.mean) / self.seen
        return torch.from_numpy(image - brightness)


dataset = Counted(np.random.default_rng(0).random((600, 20, 20)))
