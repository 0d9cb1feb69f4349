"""Texts of one open zip archive: ZipFile counts its readers without a lock; a lost count closes the
file too early.
"""

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
        self._archive = None

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        if self._archive is None:
            self._archive = zipfile.ZipFile(self.path)
        text = self._archive.read(self.names[index]).decode()
        return np.array([ord(letter) for letter in text])


path = Path(tempfile.mkdtemp()) / "texts.zip"
with zipfile.ZipFile(path, "w") as archive:
    for number in range(1000):
        archive.writestr(f"{number}.txt", f"document {number}, " * 4)
dataset = ZippedTexts(path)
