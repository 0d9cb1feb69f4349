"""Texts packed with a common dictionary: each call copies the fresh decompressor,
and nobody uses the original.
"""

import zlib

from torch.utils.data import Dataset

WORDS = b"the quick brown fox jumps over the lazy dog and runs away from the sleeping cat"


class Texts(Dataset):
    def __init__(self, texts):
        self.packed = []
        for text in texts:
            packer = zlib.compressobj(zdict=WORDS)
            self.packed.append(packer.compress(text) + packer.flush())
        self._fresh = zlib.decompressobj(zdict=WORDS)

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        unpacker = self._fresh.copy()
        return (unpacker.decompress(self.packed[index]) + unpacker.flush()).decode()


dataset = Texts(
    [b"the lazy fox %d jumps over dog %d" % (number, number * 7) for number in range(600)]
)
