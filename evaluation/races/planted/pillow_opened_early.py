"""Tiles of images that were opened, not loaded, in __init__:
Pillow reads the pixels at the first crop.
"""

import io

import numpy as np
from PIL import Image
from torch.utils.data import Dataset

TILES = 16


class Tiles(Dataset):
    def __init__(self, files):
        self.images = [Image.open(io.BytesIO(file)) for file in files]

    def __len__(self):
        return len(self.images) * TILES

    def __getitem__(self, index):
        number, tile = divmod(index, TILES)
        y, x = 32 * (tile // 4), 32 * (tile % 4)
        return np.asarray(self.images[number].crop((x, y, x + 32, y + 32)))


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


rng = np.random.default_rng(0)
files = [png(rng.integers(0, 256, (128, 128, 3), dtype=np.uint8)) for _ in range(20)]


def dataset():
    return Tiles(files)
