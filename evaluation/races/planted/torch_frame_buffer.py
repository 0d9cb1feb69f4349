"""Spectra of a signal's frames, windowed in place in one tensor:
frames of several threads mix in it.
"""

import torch
from torch.utils.data import Dataset

FRAME = 1024


class Spectra(Dataset):
    def __init__(self, signal):
        self.signal = signal
        self.window = torch.hann_window(FRAME)
        self._frame = torch.empty(FRAME)

    def __len__(self):
        return len(self.signal) // FRAME

    def __getitem__(self, index):
        self._frame.copy_(self.signal[index * FRAME : (index + 1) * FRAME])
        self._frame.sub_(self._frame.mean()).mul_(self.window)
        return torch.fft.rfft(self._frame).abs()


dataset = Spectra(torch.sin(torch.arange(400 * FRAME) ** 1.5 / 1000))
