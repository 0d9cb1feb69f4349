"""Shards shuffled with random.seed(shard): the workers share the generator, so the order is not
that of the seed.
"""

import random

from torch.utils.data import IterableDataset, get_worker_info

SHARDS, ROWS = 40, 20


class Shuffled(IterableDataset):
    """Each shard through a small shuffle buffer, in the same order each time.
    Gives shard, place and row.
    """

    def __iter__(self):
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        for shard in range(first, SHARDS, step):
            random.seed(shard)
            yield from ((shard, place, row) for place, row in enumerate(self._order(range(ROWS))))

    def _order(self, rows, size=8):
        buffer = []
        for row in rows:
            buffer.append(row)
            if len(buffer) == size:
                yield buffer.pop(random.randrange(size))
        random.shuffle(buffer)
        yield from buffer


dataset = Shuffled()
