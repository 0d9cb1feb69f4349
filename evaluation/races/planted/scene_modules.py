"""Scenes, each with a config.py: importing it goes through sys.path and sys.modules,
which all threads share.
"""

import importlib
import sys
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import Dataset


class Scenes(Dataset):
    def __init__(self, folder):
        self.folders = sorted(folder.iterdir())

    def __len__(self):
        return len(self.folders)

    def __getitem__(self, index):
        sys.path.insert(0, str(self.folders[index]))
        try:
            sys.modules.pop("scene_config", None)
            config = importlib.import_module("scene_config")
        finally:
            sys.path.pop(0)
        return np.full((4, 4), config.FOCAL_LENGTH), config.NAME


folder = Path(tempfile.mkdtemp())
for number in range(60):
    scene = folder / f"scene{number:03}"
    scene.mkdir()
    (scene / "scene_config.py").write_text(
        f"NAME = 'scene {number}'\nFOCAL_LENGTH = {number * 0.5}\n"
    )
dataset = Scenes(folder)
