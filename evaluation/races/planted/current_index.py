"""ECG windows whose methods look at self.index, set by __getitem__:
a thread computes with another's index.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class Heartbeats(Dataset):
    def __init__(self, signal, peaks, labels):
        self.signal, self.peaks, self.labels = signal, peaks, labels

    def __len__(self):
        return len(self.peaks)

    def window(self):
        peak = self.peaks[self.index]
        part = self.signal[peak - 50 : peak + 50]
        return (part - part.mean()) / part.std()

    def interval(self):
        return float(self.peaks[self.index] - self.peaks[self.index - 1])

    def label(self):
        return int(self.labels[self.index])

    def __getitem__(self, index):
        self.index = index
        return torch.from_numpy(self.window()), self.interval(), self.label()


rng = np.random.default_rng(0)
peaks = 100 + np.cumsum(rng.integers(60, 140, 500))
dataset = Heartbeats(rng.standard_normal(peaks[-1] + 100), peaks, rng.integers(0, 4, 500))
