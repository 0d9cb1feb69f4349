"""Train an image classifier on JPEG files. One import differs from the usual program: the DataLoader's.

Worker threads load the images where the GIL is off, worker processes elsewhere.
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import Dataset

from ftloader import DataLoader  # instead of: from torch.utils.data import DataLoader

CLASSES = ("horizontal", "vertical")
IMAGES = 400
SIDE = 32


def generate(folder: Path) -> None:
    """Write noisy images of stripes; the class is the first part of the file's name."""
    rng = np.random.default_rng(0)
    for number in range(IMAGES):
        label = number % len(CLASSES)
        stripes = np.tile(np.where(np.arange(SIDE) % 8 < 4, 180, 70), (SIDE, 1))
        pixels = (stripes if CLASSES[label] == "vertical" else stripes.T) + rng.normal(
            0, 40, (SIDE, SIDE)
        )
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(
            folder / f"{CLASSES[label]}-{number}.jpg"
        )


class Stripes(Dataset):
    """Dataset of float32 tensors (1, 32, 32) and their classes. Nothing is written, so threads may share it."""

    def __init__(self, folder: Path):
        self.paths = sorted(folder.glob("*.jpg"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        with Image.open(path) as image:
            pixels = np.array(image, dtype=np.float32)
        return torch.from_numpy(pixels[None] / 255 - 0.5), CLASSES.index(path.name.split("-")[0])


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 5), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        loader = DataLoader(Stripes(Path(folder)), batch_size=32, shuffle=True, num_workers=2)
        for epoch in range(4):
            begin, right = time.perf_counter(), 0
            for images, labels in loader:
                scores = model(images)
                optimiser.zero_grad()
                nn.functional.cross_entropy(scores, labels).backward()
                optimiser.step()
                right += (scores.argmax(1) == labels).sum().item()
            print(f"epoch {epoch}: {right / IMAGES:.0%} right, {time.perf_counter() - begin:.2f} s")


if __name__ == "__main__":
    main()
