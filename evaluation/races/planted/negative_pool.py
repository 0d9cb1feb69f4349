"""Recommendations with negatives: a generator of the sample shuffles candidates
that all threads use.
"""

import random

import torch
from torch.utils.data import Dataset

ITEMS = 120


class Interactions(Dataset):
    def __init__(self, pairs, negatives=8):
        self.pairs, self.negatives = pairs, negatives
        self.candidates = list(range(ITEMS))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, index):
        user, item = self.pairs[index]
        rng = random.Random(index)
        self.candidates.sort()
        rng.shuffle(self.candidates)
        negatives = [other for other in self.candidates[: self.negatives + 1] if other != item][
            : self.negatives
        ]
        return torch.tensor([user, item, *negatives])


dataset = Interactions([(user, user * 7 % ITEMS) for user in range(400)])
