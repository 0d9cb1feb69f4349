"""Boxes inside crops: the cached array is moved to the crop and back in place, so threads see it
moved by others.
"""

import functools

import numpy as np
from torch.utils.data import Dataset

IMAGES, CROPS = 10, 64


@functools.lru_cache(maxsize=100)
def boxes_of(image):
    """The boxes of an image, as if they were parsed from a slow XML file."""
    corner = np.random.default_rng(image).integers(0, 200, (200, 2))
    return np.hstack([corner, corner + 20]).astype(np.float64)


class Crops(Dataset):
    def __len__(self):
        return IMAGES * CROPS

    def __getitem__(self, index):
        image, crop = divmod(index, CROPS)
        left, top = 10 * (crop % 8), 10 * (crop // 8)
        offset = np.array([left, top, left, top])
        boxes = boxes_of(image)
        boxes -= offset
        inside = boxes[((boxes >= 0) & (boxes < 96)).all(axis=1)]
        boxes += offset
        return inside


dataset = Crops()
