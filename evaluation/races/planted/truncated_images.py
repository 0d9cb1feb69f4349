"""JPEGs, some truncated: Pillow's switch to accept those is a global, which other threads turn off
before the load.
"""

import io

import numpy as np
from PIL import Image, ImageFile
from torch.utils.data import Dataset


class Photos(Dataset):
    def __init__(self, files, damaged):
        self.files = files
        self.damaged = damaged

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        ImageFile.LOAD_TRUNCATED_IMAGES = index in self.damaged  # other damage shall be an error
        with Image.open(io.BytesIO(self.files[index])) as image:
            pixels = np.asarray(image.convert("RGB"))
        ImageFile.LOAD_TRUNCATED_IMAGES = False
        return pixels


def photos(count=300):
    files = []
    for number in range(count):
        file = io.BytesIO()
        pixels = np.random.default_rng(number).integers(0, 256, (48, 48, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file, "JPEG")
        files.append(file.getvalue()[: -900 if number % 5 == 0 else None])
    return files


dataset = Photos(photos(), damaged=set(range(0, 300, 5)))
