"""A stream that packs texts into blocks: the list for the rest is a default argument,
which all copies share.
"""

import numpy as np
from torch.utils.data import IterableDataset, get_worker_info

BLOCK = 16


def blocks(texts, rest=[]):  # noqa: B006
    rest.clear()
    for text in texts:
        rest.extend(text)
        while len(rest) >= BLOCK:
            yield np.array(rest[:BLOCK])
            del rest[:BLOCK]


class Packed(IterableDataset):
    def __init__(self, shards):
        self.shards = shards

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for shard in self.shards[first::step]:
            yield from blocks(shard)


rng = np.random.default_rng(0)
dataset = Packed(
    [[rng.integers(0, 1000, rng.integers(4, 12)).tolist() for _ in range(60)] for _ in range(16)]
)
