"""Images in a key-value store, read in one transaction that is renewed and reset for each sample,
as with LMDB.
"""

import numpy as np
from torch.utils.data import Dataset


class Transaction:
    """A read-only view of the store; between reset() and renew() there is nothing to read."""

    def __init__(self, store):
        self.store = store
        self.snapshot = None

    def renew(self):
        self.snapshot = self.store

    def get(self, key):
        return self.snapshot[key]

    def reset(self):
        self.snapshot = None


class Images(Dataset):
    def __init__(self, store):
        self.store = store
        self.transaction = Transaction(store)

    def __len__(self):
        return len(self.store) // 2

    def __getitem__(self, index):
        self.transaction.renew()
        try:
            image = np.frombuffer(self.transaction.get(b"image-%08d" % index), dtype=np.uint8)
            label = self.transaction.get(b"label-%08d" % index).decode()
        finally:
            self.transaction.reset()
        return image.reshape(8, 8, 3), label


rng = np.random.default_rng(0)
store = {b"image-%08d" % number: rng.bytes(192) for number in range(400)}
store |= {b"label-%08d" % number: b"word %d" % number for number in range(400)}
dataset = Images(store)
