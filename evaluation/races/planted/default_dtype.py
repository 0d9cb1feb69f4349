"""A filter computed in double precision by torch.set_default_dtype: the process's, so other threads
get doubles too.
"""

import torch
from torch.utils.data import Dataset


class Filtered(Dataset):
    def __init__(self, signals):
        self.signals = signals

    def __len__(self):
        return len(self.signals)

    def _filter(self, cutoff):
        torch.set_default_dtype(torch.float64)  # the poles need the precision
        try:
            taps = torch.arange(-32, 33) * cutoff
            return torch.sinc(taps).float()
        finally:
            torch.set_default_dtype(torch.float32)

    def __getitem__(self, index):
        signal = self.signals[index] * torch.hann_window(self.signals.shape[1])
        taps = self._filter(0.1 + index % 10 / 20)
        position = torch.linspace(0, 1, len(signal))
        return torch.conv1d(signal[None, None], taps[None, None])[0, 0], position


dataset = Filtered(torch.sin(torch.arange(300 * 256) ** 1.3 / 100).reshape(300, 256))
