"""A stream of length-prefixed records, read into a bytearray
of the module that is there to save allocations.
"""

import io
import struct

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

_scratch = bytearray(1 << 16)


def records(file):
    """Yield the records of a shard; each is valid until the next one is read."""
    view = memoryview(_scratch)
    while file.readinto(view[:4]) == 4:
        (length,) = struct.unpack_from("<I", _scratch)
        file.readinto(view[:length])
        yield view[:length]


class Stream(IterableDataset):
    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for shard in self.shards[first::step]:
            for record in records(io.BytesIO(shard)):
                yield torch.tensor(np.frombuffer(record, dtype=np.uint8).astype(np.int32))


rng = np.random.default_rng(0)
dataset = Stream(
    [b"".join(struct.pack("<I", 256) + rng.bytes(256) for _ in range(30)) for _ in range(24)]
)
