"""A stream of shards that notes the current one in a module global:
samples are marked with another worker's shard.
"""

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

current = None


def labelled(row):
    return current, row * (current + 1)


class Shards(IterableDataset):
    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        global current
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for number in range(first, len(self.shards), step):
            current = number
            for row in self.shards[number]:
                yield labelled(row)


dataset = Shards(np.random.default_rng(0).random((32, 25, 8)))
