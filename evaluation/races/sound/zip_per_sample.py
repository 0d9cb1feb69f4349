"""Texts of a zip archive that each sample opens and closes."""

import tempfile
import zipfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset


class ZippedTexts(Dataset):
    def __init__(self, path):
        self.path = path
        with zipfile.ZipFile(path) as archive:
            self.names = archive.namelist()

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        with zipfile.ZipFile(self.path) as archive:
            return np.array([ord(letter) for letter in archive.read(self.names[index]).decode()])


path = Path(tempfile.mkdtemp()) / "texts.zip"
with zipfile.ZipFile(path, "w") as archive:
    for number in range(200):
        archive.writestr(f"{number}.txt", f"document {number}, " * 4)
dataset = ZippedTexts(path)
