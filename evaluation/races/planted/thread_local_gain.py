"""Settings in a threading.local that the constructor fills: worker threads do not find them and
take the default.
"""

import threading

import numpy as np
import torch
from torch.utils.data import Dataset

settings = threading.local()


def amplified(signal):
    return signal * getattr(settings, "gain", 1.0)


class Amplified(Dataset):
    def __init__(self, signals, gain):
        self.signals = signals
        settings.gain = gain

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, index):
        return torch.from_numpy(amplified(self.signals[index]))


dataset = Amplified(np.random.default_rng(0).random((300, 100)), gain=2.5)
