"""Images of a tar archive: its members are read through one file object,
whose position the threads share.
"""

import io
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class TarImages(Dataset):
    def __init__(self, path):
        self.path = path
        with tarfile.open(path) as tar:
            self.members = tar.getmembers()
        self._tar = None

    def __len__(self):
        return len(self.members)

    def __getitem__(self, index):
        if self._tar is None:
            self._tar = tarfile.open(self.path)
        with Image.open(self._tar.extractfile(self.members[index])) as image:
            return np.asarray(image.convert("RGB"))


def pack(path, count=300):
    pixels = np.random.default_rng(0)
    with tarfile.open(path, "w") as tar:
        for number in range(count):
            png = io.BytesIO()
            Image.fromarray(pixels.integers(0, 256, (24, 24, 3), dtype=np.uint8)).save(png, "PNG")
            info = tarfile.TarInfo(f"{number:04}.png")
            info.size = len(png.getvalue())
            tar.addfile(info, io.BytesIO(png.getvalue()))
    return path


dataset = TarImages(pack(Path(tempfile.mkdtemp()) / "train.tar"))
