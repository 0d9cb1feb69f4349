"""Downloads that fail at times and are tried again: the tries are counted in the sample, and logged
by a logger.
"""

import io
import logging

import numpy as np
from torch.utils.data import Dataset

log = logging.getLogger("downloads")
log.addHandler(logging.StreamHandler(io.StringIO()))
log.setLevel(logging.INFO)


class Bucket:
    def __init__(self, objects):
        self.objects = objects

    def get(self, key, attempt):
        if attempt < key % 3:
            raise ConnectionResetError(f"object {key}, attempt {attempt}")
        return self.objects[key]


class Objects(Dataset):
    def __init__(self, bucket):
        self.bucket = bucket

    def __len__(self):
        return len(self.bucket.objects)

    def __getitem__(self, index):
        for attempt in range(4):
            try:
                return np.frombuffer(self.bucket.get(index, attempt), dtype=np.uint8), attempt
            except ConnectionResetError as error:
                log.info("again: %s", error)
        raise OSError(f"object {index} cannot be read")


rng = np.random.default_rng(0)
dataset = Objects(Bucket([rng.bytes(64) for _ in range(300)]))
