"""Images of various sizes pasted on one canvas: another thread clears it, or pastes its image,
before the copy.
"""

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class Letterboxed(Dataset):
    def __init__(self, images, side=64):
        self.images = images
        self.side = side
        self._canvas = Image.new("L", (side, side))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        self._canvas.paste(114, (0, 0, self.side, self.side))
        self._canvas.paste(image, ((self.side - image.width) // 2, (self.side - image.height) // 2))
        return np.array(self._canvas)


rng = np.random.default_rng(0)
sizes = rng.integers(20, 60, (400, 2))
dataset = Letterboxed(
    [Image.fromarray(rng.integers(0, 256, size, dtype=np.uint8)) for size in sizes]
)
