"""Measurements that old code prints: redirect_stdout changes the process's sys.stdout, so outputs
get mixed up.
"""

import contextlib
import io

import torch
from torch.utils.data import Dataset


def measure(signal):
    """Old code, which prints what it finds."""
    for start in range(0, len(signal), 32):
        part = signal[start : start + 32]
        print(f"{start}: {max(part) - min(part):.3f}")


class Measured(Dataset):
    def __init__(self, signals):
        self.signals = signals

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, index):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            measure(self.signals[index])
        return torch.tensor([float(line.split()[1]) for line in output.getvalue().splitlines()])


dataset = Measured([[(i * k) % 97 / 10 for k in range(256)] for i in range(300)])
