"""Medical augmentation in two steps: randomize() leaves its draws in the transform,
and __call__ applies them.
"""

import numpy as np
from torch.utils.data import Dataset


class RandFlipShift:
    def __init__(self, probability):
        self.probability = probability
        self._do_transform, self._axis, self._shift = False, 0, 0

    def randomize(self, rng):
        self._do_transform = rng.random() < self.probability
        self._axis = int(rng.integers(3))
        self._shift = int(rng.integers(1, 5))

    def apply(self, volume):
        if not self._do_transform:
            return volume
        return np.roll(np.flip(volume, self._axis), self._shift, self._axis)

    def __call__(self, volume, mask, rng):
        self.randomize(rng)
        return np.ascontiguousarray(self.apply(volume)), np.ascontiguousarray(self.apply(mask))


class Volumes(Dataset):
    def __init__(self, volumes, seed=0):
        self.volumes, self.seed = volumes, seed
        self.transform = RandFlipShift(0.7)

    def __len__(self):
        return len(self.volumes)

    def __getitem__(self, index):
        rng = np.random.default_rng([self.seed, index])
        return self.transform(self.volumes[index], self.volumes[index] > 0.5, rng)


dataset = Volumes(np.random.default_rng(0).random((300, 8, 12, 12), dtype=np.float32))
