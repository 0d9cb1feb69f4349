"""How long a training loop waits for its first batch, of new loaders one after the other."""

from __future__ import annotations

import time
from statistics import median

from ftbench.measure import checksums
from ftbench.plan.contest import Comparison, Contest, at_most
from ftbench.plan.scenario import Amount, Task
from ftbench.scenarios.peers.entries import NODES, OURS, TORCH
from ftbench.scenarios.peers.pillow import dataset
from ftbench.scenarios.pillow import of_images


def measure(task: Task) -> dict:
    """Start `task.batches` loaders; each is left at its first batch and ends before the next starts.

    Returns time_to_first_batch (s) as the only metric: the median over the starts, each from the
    start of an epoch that is longer than what is prefetched, to its first batch. The checksums in
    `rows` are those of each start's first batch.
    """
    from ftbench.measure.loaders import open_loader

    samples_of = task.dataset()
    samples = (task.prefetch_factor + 1) * task.workers * task.batch_size
    found: list[int] = []
    times, first, batch = [], 0, ()
    for _ in range(task.batches):
        with open_loader(task, samples_of, persistent=False) as loader:
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


SCENARIO = of_images(
    name="peers-startup",
    group="peers",
    description="the first batch of JPEGs by a new loader, from the start of its workers",
    dataset=dataset,
    measure=measure,
    metrics=("time_to_first_batch",),
    contest=Contest(
        (
            Comparison(OURS, TORCH, at_most(1 / 3), "all workers at the first batch, and none to fork"),
            Comparison(OURS, NODES),
        )
    ),
    full=Amount(batch_size=128, batches_per_worker=2),
    quick=Amount(batch_size=32, batches_per_worker=2),
    seconds=130,
    quick_seconds=40,
)
