"""Pages of one TIFF that is kept open: its current page is the image's state,
which other threads change.
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class Pages(Dataset):
    def __init__(self, path, count):
        self.path = path
        self.count = count
        self._image = None

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if self._image is None:
            self._image = Image.open(self.path)
        self._image.seek(index)
        return np.array(self._image)


path = Path(tempfile.mkdtemp()) / "stack.tif"
stack = np.random.default_rng(0).integers(0, 256, (200, 32, 32), dtype=np.uint8)
first, *others = map(Image.fromarray, stack)
first.save(path, save_all=True, append_images=others)
dataset = Pages(path, len(stack))
