"""Time series smoothed over a deque that is kept in the dataset: values of other threads' series
get into it.
"""

from collections import deque

import torch
from torch.utils.data import Dataset


class Smoothed(Dataset):
    def __init__(self, series, width=5):
        self.series = series
        self._window = deque(maxlen=width)

    def __len__(self):
        return len(self.series)

    def __getitem__(self, index):
        self._window.clear()
        smooth = []
        for value in self.series[index]:
            self._window.append(value)
            smooth.append(sum(self._window) / len(self._window))
        return torch.tensor(smooth)


dataset = Smoothed([[(i * k) % 101 / 10 for k in range(100)] for i in range(400)])
