"""Decode the same JPEGs with worker threads and with worker processes, in turns, and compare.

    ./twins exec ft python examples/threads_or_processes.py        without the GIL
    ./twins exec gil python examples/threads_or_processes.py       with it

`./twins bench` measures the same in several processes, with intervals.
"""

import io
import time
from statistics import median

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset

from ftloader import DataLoader

IMAGES, WORKERS, TURNS = 256, 2, 5


def jpeg() -> bytes:
    """Return a picture of 640 x 400 pixels."""
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (40, 64, 3), dtype=np.uint8))
    file = io.BytesIO()
    small.resize((640, 400), Image.Resampling.BICUBIC).save(file, "JPEG", quality=90)
    return file.getvalue()


class Pictures(Dataset):
    """Dataset of decoded pictures, arrays (400, 640, 3) of uint8. Put yours in its place."""

    def __init__(self):
        self.content = jpeg()

    def __len__(self):
        return IMAGES

    def __getitem__(self, index):
        return np.array(Image.open(io.BytesIO(self.content)).convert("RGB"))


def main() -> None:
    torch.set_num_threads(1)
    loaders, seconds = {}, {}
    for method in ("thread", "process"):
        loaders[method] = DataLoader(
            Pictures(),
            batch_size=16,
            num_workers=WORKERS,
            worker_method=method,
            persistent_workers=True,
        )
        seconds[method] = []
    for turn in range(TURNS + 1):
        for method, loader in loaders.items():
            begin = time.perf_counter()
            for _ in loader:
                pass
            if turn:  # the first one starts the workers
                seconds[method].append(time.perf_counter() - begin)
    for method, turns in seconds.items():
        print(f'worker_method="{method}": {IMAGES / median(turns):.0f} images/s')


if __name__ == "__main__":
    main()
