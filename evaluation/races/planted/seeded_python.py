"""Masked language modelling with random.seed(index): threads share the generator, so masks depend
on their timing.
"""

import random

import torch
from torch.utils.data import Dataset

MASK = 0


class MaskedTexts(Dataset):
    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        random.seed(index)  # the same masks in each epoch
        tokens = list(self.texts[index])
        for place in range(len(tokens)):
            if random.random() < 0.15:
                tokens[place] = MASK if random.random() < 0.8 else random.randrange(1, 1000)
        return torch.tensor(tokens), torch.tensor(self.texts[index])


words = random.Random(1)
dataset = MaskedTexts([[words.randrange(1, 1000) for _ in range(64)] for _ in range(500)])
