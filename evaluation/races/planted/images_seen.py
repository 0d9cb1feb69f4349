"""Images whose augmentation grows with the number of loads:
`self.seen += 1` loses counts between threads.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class Scheduled(Dataset):
    """Call strength() once per epoch, and set the augmentation to it."""

    def __init__(self, count, epochs=10):
        self.labels = np.arange(count) % 10
        self.epochs = epochs
        self.seen = 0

    def strength(self):
        return min(1.0, self.seen / (self.epochs * len(self)))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        self.seen += 1
        return torch.full((4, 4), float(index)), int(self.labels[index])


dataset = Scheduled(1000)
