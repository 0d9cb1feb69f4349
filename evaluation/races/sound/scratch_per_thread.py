"""Spectra of frames that are windowed in place in a tensor of the thread's own;
the result is a new tensor.
"""

import threading

import torch
from torch.utils.data import Dataset

FRAME = 1024


class Scratch(threading.local):
    """The constructor runs once in each thread that uses the object."""

    def __init__(self):
        self.frame = torch.empty(FRAME)


class Spectra(Dataset):
    def __init__(self, signal):
        self.signal = signal
        self.window = torch.hann_window(FRAME)
        self._scratch = Scratch()

    def __len__(self):
        return len(self.signal) // FRAME

    def __getitem__(self, index):
        frame = self._scratch.frame
        frame.copy_(self.signal[index * FRAME : (index + 1) * FRAME])
        frame.sub_(frame.mean()).mul_(self.window)
        return torch.fft.rfft(frame).abs()


dataset = Spectra(torch.sin(torch.arange(400 * FRAME) ** 1.5 / 1000))
