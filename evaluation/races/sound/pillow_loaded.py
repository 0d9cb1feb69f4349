"""Tiles of images that were opened and loaded in __init__:
crop() reads the pixels and makes a new image.
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.data import Dataset

TILES = 16


class Tiles(Dataset):
    def __init__(self, paths):
        self.images = [Image.open(path) for path in paths]
        for image in self.images:
            image.load()

    def __len__(self):
        return len(self.images) * TILES

    def __getitem__(self, index):
        number, tile = divmod(index, TILES)
        y, x = 32 * (tile // 4), 32 * (tile % 4)
        return np.asarray(self.images[number].crop((x, y, x + 32, y + 32)))


folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
for number in range(20):
    Image.fromarray(rng.integers(0, 256, (128, 128, 3), dtype=np.uint8)).save(
        folder / f"{number:02}.png"
    )


def dataset():
    return Tiles(sorted(folder.glob("*.png")))
