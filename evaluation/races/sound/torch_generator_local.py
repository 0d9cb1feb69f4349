"""Noise from a torch.Generator that each sample makes and seeds for itself,
and masks from a random.Random.
"""

import random

import torch
from torch.utils.data import Dataset


class NoisySpeech(Dataset):
    def __init__(self, clips, seed):
        self.clips = clips
        self.seed = seed

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(self.seed + index)
        noise = torch.randn(self.clips.shape[1], generator=generator)
        start = random.Random(index).randrange(300)
        clip = self.clips[index] + 0.01 * noise
        clip[start : start + 50] = 0
        return clip


dataset = NoisySpeech(torch.linspace(-1, 1, 500 * 400).reshape(500, 400), seed=17)
