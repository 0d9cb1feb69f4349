"""The measurement of most scenarios: a warm-up epoch, then some that are timed, in turn with other trials."""

from __future__ import annotations

import statistics
import time

from ftbench import checksums
from ftbench.memory import memory_pss_mib
from ftbench.scenario import Task, Turns


def measure(task: Task, **options: object) -> Turns:
    """Run the warm-up and the measured epochs; `options` are further arguments of the loader (ftbench.loaders).

    Each measured epoch is a turn: it yields before. Returns the metrics: throughput (samples/s), the geometric
    mean of all turns, each timed from its start to its last batch with the workers up; its inverse overhead_us
    (µs a sample); time_to_first_batch (s), from the start of the first epoch of a new loader to its first batch,
    so with the start of the workers; pss_mib, the largest PSS of the process tree seen after some batches of the
    warm-up and after the measured epochs. And samples, batches, the length of the last batch, checksums: of the
    first batch's every byte (`first_batch`) and of some rows of each measured batch (`rows`); turn_seconds.
    """
    from ftbench.loaders import open_loader

    batch_size = task.batch_size
    with open_loader(task, task.dataset(), persistent=True, **options) as loader:
        begin = time.perf_counter()
        epoch = loader.epoch(task.warmup_batches * batch_size)
        batch = next(epoch)
        time_to_first_batch = time.perf_counter() - begin
        first = checksums.whole(batch)
        pss = memory_pss_mib()
        # Reading the page tables of many workers takes long; twice more is enough.
        step = max(1, task.warmup_batches // 2)
        for number, batch in enumerate(epoch, 1):  # noqa: B007, let go of below
            if number % step == 0:
                pss = max(pss, memory_pss_mib())

        del epoch
        found, turn_seconds, last = [], [], 0
        samples = task.batches * batch_size
        for _ in range(task.turns):
            # Nothing is held while others have their turns and the time is taken.
            batch = ()
            yield
            begin = time.perf_counter()
            for batch in loader.epoch(samples):
                found.append(checksums.part(batch))
            turn_seconds.append(time.perf_counter() - begin)
            last = checksums.length(batch)
        pss = max(pss, memory_pss_mib())
    # So the ratio of two contestants is the mean of their turns' ratios, which were measured close to each other.
    throughput = samples / statistics.geometric_mean(turn_seconds)
    return {
        "metrics": {
            "throughput": throughput,
            "overhead_us": 1e6 / throughput,
            "time_to_first_batch": time_to_first_batch,
            "pss_mib": pss,
        },
        "samples": samples * task.turns,
        "batches": len(found),
        "last_batch": last,
        "first_batch": first,
        "rows": found,
        "turn_seconds": turn_seconds,
    }
