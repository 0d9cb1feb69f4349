"""Texts decoded in chunks by one incremental decoder:
the half characters of one thread meet those of another.
"""

import codecs

import numpy as np
from torch.utils.data import Dataset


class Texts(Dataset):
    """Texts are stored in pages, which may end in the middle of a character."""

    def __init__(self, texts, page=7):
        self.pages = [
            [data[i : i + page] for i in range(0, len(data), page)]
            for data in map(str.encode, texts)
        ]
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def __len__(self):
        return len(self.pages)

    def __getitem__(self, index):
        self._decoder.reset()
        text = "".join(self._decoder.decode(page) for page in self.pages[index])
        text += self._decoder.decode(b"", final=True)
        return np.array([ord(letter) for letter in text])


dataset = Texts(
    [f"Größe {number} über Straße — naïve café, {number} €; " * 3 for number in range(400)]
)
