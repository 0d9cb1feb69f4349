"""Labels kept once in a table that grows while samples are read:
two threads give two labels the same number.
"""

import torch
from torch.utils.data import Dataset


class Labelled(Dataset):
    def __init__(self, count):
        self.texts = [f"class-{number * 7919 % 997}" for number in range(count)]
        self.numbers, self.labels = {}, []

    def __len__(self):
        return len(self.texts)

    def _number(self, label):
        if label not in self.numbers:
            self.numbers[label] = len(self.labels)
            self.labels.append(label)
        return self.numbers[label]

    def __getitem__(self, index):
        number = self._number(self.texts[index])
        return torch.tensor([float(index)]), self.labels[number]


dataset = Labelled(900)
