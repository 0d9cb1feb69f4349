"""Noise under torch.random.fork_rng: it saves, seeds and restores the global generator,
which all threads share.
"""

import torch
from torch.utils.data import Dataset


class Noisy(Dataset):
    def __init__(self, signals):
        self.signals = signals

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, index):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(index)
            noise = torch.randn(64)
            scale = torch.rand(1)
        return self.signals[index] + noise * scale


dataset = Noisy(torch.linspace(0, 1, 400 * 64).reshape(400, 64))
