"""MinHash signatures of texts, for removing duplicates, with one signature object that clear()
makes empty again.
"""

import zlib

import numpy as np
import torch
from torch.utils.data import Dataset

PRIME = (1 << 31) - 1


class MinHash:
    def __init__(self, permutations, seed):
        rng = np.random.default_rng(seed)
        self.a, self.b = rng.integers(1, PRIME, (2, permutations), dtype=np.int64)
        self.clear()

    def clear(self):
        self.values = np.full(len(self.a), PRIME, dtype=np.int64)

    def update(self, shingle):
        hashed = zlib.crc32(shingle.encode()) & 0x7FFF
        self.values = np.minimum(self.values, (hashed * self.a + self.b) % PRIME)


class Signatures(Dataset):
    def __init__(self, texts):
        self.texts = texts
        self.minhash = MinHash(64, seed=1)

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        words = self.texts[index].split()
        self.minhash.clear()
        for pair in zip(words, words[1:]):
            self.minhash.update(" ".join(pair))
        return torch.from_numpy(self.minhash.values.copy())


dataset = Signatures([" ".join(str(i * k % 97) for k in range(1, 20)) for i in range(1, 300)])
