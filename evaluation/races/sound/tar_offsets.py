"""Images of a tar archive by their offsets in it, which the constructor collects;
samples read with os.pread.
"""

import io
import os
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class TarImages(Dataset):
    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.places = [(member.offset_data, member.size) for member in tar]
        self._descriptor = os.open(path, os.O_RDONLY)

    def __len__(self):
        return len(self.places)

    def __getitem__(self, index):
        offset, size = self.places[index]
        with Image.open(io.BytesIO(os.pread(self._descriptor, size, offset))) as image:
            return np.asarray(image.convert("RGB"))


path = Path(tempfile.mkdtemp()) / "train.tar"
with tarfile.open(path, "w") as tar:
    for number in range(300):
        png = io.BytesIO()
        Image.fromarray(np.full((24, 24, 3), number % 251, dtype=np.uint8)).save(png, "PNG")
        info = tarfile.TarInfo(f"{number:04}.png")
        info.size = len(png.getvalue())
        tar.addfile(info, io.BytesIO(png.getvalue()))
dataset = TarImages(path)
