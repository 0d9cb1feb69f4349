"""The measurement of starting: new loaders, one after the other, each up to its first batch."""

from __future__ import annotations

import time
from statistics import median

from ftbench import checksums
from ftbench.scenario import Task


def measure(task: Task) -> dict:
    """Start `task.batches` loaders; each is left at its first batch and ends before the next starts.

    Returns time_to_first_batch (s) as the only metric: the median over the starts, each from the
    start of an epoch that is longer than what is prefetched, to its first batch. The checksums in
    `rows` are those of each start's first batch.
    """
    from ftbench.loaders import open_loader

    dataset = task.dataset()
    samples = (task.prefetch_factor + 1) * task.workers * task.batch_size
    found: list[int] = []
    times, first, batch = [], 0, ()
    for _ in range(task.batches):
        with open_loader(task, dataset, persistent=False) as loader:
            begin = time.perf_counter()
            epoch = loader.epoch(samples)
            batch = next(epoch)
            times.append(time.perf_counter() - begin)
            if not found:
                first = checksums.whole(batch)
            found.append(checksums.part(batch))
            del epoch
    return {
        "metrics": {"time_to_first_batch": median(times)},
        "samples": task.batches * task.batch_size,
        "batches": len(found),
        "last_batch": len(batch),
        "first_batch": first,
        "rows": found,
    }
