"""A stream of records whose file is opened by a cached function:
the workers' copies all get the same handle.
"""

import functools
import tempfile
from pathlib import Path

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

RECORD = 256


@functools.cache
def opened(path):
    return open(path, "rb")


class Records(IterableDataset):
    def __init__(self, path):
        self.path = path

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        file = opened(self.path)
        for number in range(first, self.path.stat().st_size // RECORD, step):
            file.seek(number * RECORD)
            yield np.frombuffer(file.read(RECORD), dtype=np.uint8)


path = Path(tempfile.mkdtemp()) / "records.bin"
path.write_bytes(np.random.default_rng(0).bytes(800 * RECORD))
dataset = Records(path)
