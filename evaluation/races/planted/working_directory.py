"""Scenes in folders, read after os.chdir: the directory is the whole process's,
so threads read others' scenes.
"""

import json
import os
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset


class Scenes(Dataset):
    def __init__(self, root):
        self.folders = sorted(root.iterdir())

    def __len__(self):
        return len(self.folders)

    def __getitem__(self, index):
        before = os.getcwd()
        os.chdir(self.folders[index])  # scene.json names its files relative to itself
        try:
            scene = json.loads(Path("scene.json").read_text())
            return np.load(scene["points"]), scene["label"]
        finally:
            os.chdir(before)


root = Path(tempfile.mkdtemp())
for number in range(200):
    folder = root / f"{number:03}"
    folder.mkdir()
    np.save(folder / "points.npy", np.random.default_rng(number).random((50, 3)))
    (folder / "scene.json").write_text(json.dumps({"points": "points.npy", "label": number % 7}))
dataset = Scenes(root)
