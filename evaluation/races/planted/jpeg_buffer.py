"""JPEG artefacts as augmentation, through one BytesIO:
threads write their files over each other's.
"""

import io

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class JpegArtefacts:
    def __init__(self):
        self._file = io.BytesIO()

    def __call__(self, pixels, quality):
        self._file.seek(0)
        self._file.truncate()
        Image.fromarray(pixels).save(self._file, "JPEG", quality=quality)
        self._file.seek(0)
        return np.array(Image.open(self._file))


class Images(Dataset):
    def __init__(self, images):
        self.images = images
        self.transform = JpegArtefacts()

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index], quality=30 + index % 60)


dataset = Images(np.random.default_rng(0).integers(0, 256, (300, 32, 32, 3), dtype=np.uint8))
