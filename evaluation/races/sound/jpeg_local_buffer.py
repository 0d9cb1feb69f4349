"""JPEG artefacts as augmentation: each call writes to a BytesIO of its own;
the transform keeps its settings alone.
"""

import io

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class JpegArtefacts:
    def __init__(self, lowest):
        self.lowest = lowest

    def __call__(self, pixels, index):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "JPEG", quality=self.lowest + index % 60)
        file.seek(0)
        return np.array(Image.open(file))


class Images(Dataset):
    def __init__(self, images):
        self.images = images
        self.transform = JpegArtefacts(30)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index], index)


dataset = Images(np.random.default_rng(0).integers(0, 256, (300, 32, 32, 3), dtype=np.uint8))
