"""A stream with a shuffle buffer: buffer, generator and file belong to one iteration,
not to the dataset.
"""

import random
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

RECORD = 64


class Shuffled(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        dice, buffer = random.Random(first), []
        with open(self.path, "rb") as file:
            for number in range(first, self.path.stat().st_size // RECORD, step):
                file.seek(number * RECORD)
                buffer.append(np.frombuffer(file.read(RECORD), dtype=np.uint8))
                if len(buffer) == 16:
                    yield buffer.pop(dice.randrange(len(buffer)))
        dice.shuffle(buffer)
        yield from buffer


path = Path(tempfile.mkdtemp()) / "records.bin"
path.write_bytes(np.random.default_rng(0).bytes(600 * RECORD))
dataset = Shuffled(path)
