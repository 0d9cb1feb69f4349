"""Datasets whose threads fight over something on purpose, or over nothing."""

import threading

import numpy as np
from torch.utils.data import Dataset

SAMPLES, STEPS = 1024, 300
LOCK = threading.Lock()


class Planted(Dataset):
    """Dataset of sums, with attributes over which nobody fights."""

    def __init__(self):
        self.scale = 2.5
        self.labels = [f"label {number}" for number in range(SAMPLES)]

    def __len__(self):
        return SAMPLES


class Apart(Planted):
    """Threads share nothing that they change or count references to, but once in a sample."""

    def __getitem__(self, index):
        values = np.arange(index, index + 20_000, dtype=np.float64)
        return float(np.sqrt(values).sum()) * self.scale


class Counter:
    """Number that all threads change."""

    def __init__(self):
        self.value = 0

    def add(self, number):
        self.value += number


class Counted(Planted):
    """Threads fight over ``counter``, an object."""

    def __init__(self):
        super().__init__()
        self.counter = Counter()

    def __getitem__(self, index):
        total = 0
        for number in range(index, index + STEPS):
            self.counter.add(number)
            total += number * number % 7
        return total


class LookedUp(Planted):
    """Threads fight over ``vocabulary``, a dictionary that they only read."""

    def __init__(self):
        super().__init__()
        self.vocabulary = {f"word {number}": 1000 + number for number in range(2 * SAMPLES)}

    def __getitem__(self, index):
        total = 0
        for number in range(index, index + STEPS):
            total += self.vocabulary[f"word {number}"]
        return total


class Locked(Planted):
    """Threads wait for each other at a lock of the module, which no copy cures."""

    def __getitem__(self, index):
        total = 0
        with LOCK:
            for number in range(index, index + STEPS):
                total += number * number % 7
        return total
