"""Decoding with a time limit by SIGALRM: a signal handler can be set by the main thread alone."""

import signal
import zlib

import numpy as np
from torch.utils.data import Dataset


def too_slow(signum, frame):
    raise TimeoutError("decoding took too long")


class Limited(Dataset):
    def __init__(self, packed):
        self.packed = packed

    def __len__(self):
        return len(self.packed)

    def __getitem__(self, index):
        before = signal.signal(signal.SIGALRM, too_slow)
        signal.alarm(5)
        try:
            return np.frombuffer(zlib.decompress(self.packed[index]), dtype=np.uint8)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)


rng = np.random.default_rng(0)
dataset = Limited([zlib.compress(rng.bytes(500)) for _ in range(300)])
