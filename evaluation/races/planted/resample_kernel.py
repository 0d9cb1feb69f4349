"""Recordings of several rates, resampled with a kernel that is made again
when the rate is not the last one.
"""

import numpy as np
import torch
from torch.utils.data import Dataset


class Resample:
    def __init__(self, rate):
        self.rate = rate
        self.source = None

    def prepare(self, source):
        width = 4 * source // self.rate + 3
        self.kernel = np.sinc((np.arange(width) - width // 2) * self.rate / source) * np.hanning(
            width
        )
        self.stride = source // self.rate

    def __call__(self, signal, source):
        if source != self.source:
            self.source = source
            self.prepare(source)
        return np.convolve(signal, self.kernel, mode="same")[:: self.stride]


class Recordings(Dataset):
    def __init__(self, signals, rates):
        self.signals, self.rates = signals, rates
        self.resample = Resample(8000)

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, index):
        return torch.from_numpy(self.resample(self.signals[index], self.rates[index]))


rng = np.random.default_rng(0)
dataset = Recordings(rng.standard_normal((300, 960)), [8000, 16000, 24000, 48000, 96000] * 60)
