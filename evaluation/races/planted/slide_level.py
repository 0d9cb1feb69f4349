"""Tiles of an image pyramid that has a current level: at_level() sets it for a with statement, and
sets it back.
"""

from contextlib import contextmanager

import numpy as np
from torch.utils.data import Dataset


class Slide:
    def __init__(self, pixels):
        self.levels = [pixels, pixels[::2, ::2], pixels[::4, ::4]]
        self.level = 0

    @contextmanager
    def at_level(self, level):
        before, self.level = self.level, level
        try:
            yield self
        finally:
            self.level = before

    def read_region(self, y, x, size):
        pixels = self.levels[self.level]
        y, x = y >> self.level, x >> self.level
        return pixels[y : y + size, x : x + size]


class Tiles(Dataset):
    def __init__(self, slide):
        self.slide = slide

    def __len__(self):
        return 300

    def __getitem__(self, index):
        number, level = divmod(index, 3)
        y, x = 16 * (number // 10), 16 * (number % 10)
        with self.slide.at_level(level) as slide:
            return slide.read_region(y, x, 12).copy()


dataset = Tiles(Slide(np.random.default_rng(0).integers(0, 256, (192, 192), dtype=np.uint8)))
