"""Words to letters through functools.lru_cache,
whose results are tuples: nobody can change them.
"""

import functools

import torch
from torch.utils.data import Dataset


@functools.lru_cache(maxsize=64)
def letters(word):
    return tuple(ord(letter) - ord("a") for letter in word)


class Words(Dataset):
    def __init__(self, texts):
        self.texts = texts

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        return torch.tensor(
            [number for word in self.texts[index].split() for number in letters(word)]
        )


vocabulary = ["".join(chr(97 + (i * k) % 26) for k in range(1, 8)) for i in range(150)]
dataset = Words([" ".join(vocabulary[(i * k) % 150] for k in range(12)) for i in range(500)])
