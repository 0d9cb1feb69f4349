"""A stream of tokens from shards in files: each worker maps its own, and takes blocks in an order
of its own.
"""

import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

BLOCK = 32


class Tokens(IterableDataset):
    def __init__(self, folder, seed=0):
        self.folder, self.seed = folder, seed

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for path in sorted(self.folder.glob("*.bin"))[first::step]:
            tokens = np.memmap(path, dtype=np.uint16, mode="r")
            starts = list(range(0, len(tokens) - BLOCK, BLOCK))
            random.Random(f"{self.seed} {path.name}").shuffle(starts)
            for start in starts:
                block = torch.from_numpy(tokens[start : start + BLOCK + 1].astype(np.int64))
                yield block[:-1], block[1:]


folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
for number in range(24):
    rng.integers(0, 50000, 20 * BLOCK + 1, dtype=np.uint16).tofile(folder / f"{number:03}.bin")
dataset = Tokens(folder)
