"""Pages of a TIFF that each sample opens for itself, decoded from a byte string that all share."""

import io

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class Pages(Dataset):
    def __init__(self, file, count):
        self.file = file
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        with Image.open(io.BytesIO(self.file)) as image:
            image.seek(index)
            return np.array(image)


stack = np.random.default_rng(0).integers(0, 256, (40, 32, 32), dtype=np.uint8)
first, *others = map(Image.fromarray, np.concatenate([stack] * 5))
tiff = io.BytesIO()
first.save(tiff, "TIFF", save_all=True, append_images=others)
dataset = Pages(tiff.getvalue(), 200)
