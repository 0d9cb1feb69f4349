"""Noise from one torch.Generator, seeded for each sample: another thread seeds it before the
numbers are drawn.
"""

import torch
from torch.utils.data import Dataset


class NoisySpeech(Dataset):
    def __init__(self, clips, seed):
        self.clips = clips
        self.seed = seed
        self.generator = torch.Generator()

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        self.generator.manual_seed(self.seed + index)
        gain = torch.empty(1).uniform_(0.5, 1.5, generator=self.generator)
        noise = torch.randn(self.clips.shape[1], generator=self.generator)
        return gain * self.clips[index] + 0.01 * noise


dataset = NoisySpeech(torch.linspace(-1, 1, 500 * 400).reshape(500, 400), seed=17)
