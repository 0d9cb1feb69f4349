"""Random crops with a NumPy generator made for each sample from the seed and the index."""

import numpy as np
import torch
from torch.utils.data import Dataset


class RandomCrops(Dataset):
    def __init__(self, images, seed=0, size=24):
        self.images = images
        self.seed = seed
        self.size = size

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        rng = np.random.default_rng((self.seed, index))
        image = self.images[index]
        top, left = rng.integers(0, image.shape[0] - self.size, 2)
        crop = image[top : top + self.size, left : left + self.size].astype(np.float32)
        return torch.from_numpy(crop + rng.normal(0, 2, crop.shape).astype(np.float32))


dataset = RandomCrops(np.random.default_rng(0).integers(0, 256, (500, 40, 40), dtype=np.uint8))
