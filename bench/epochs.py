"""The measurement of most scenarios: a warm-up epoch, then one that is timed."""

from __future__ import annotations

import time

from bench import checksums
from bench.memory import memory_pss_mib
from bench.scenario import Task


def measure(task: Task, **options: object) -> dict:
    """Run the warm-up and the measured epoch; `options` are further arguments of the loader (bench.loaders).

    Returns the metrics: throughput (samples/s) of the measured epoch, timed from its start to its
    last batch with the workers up, and its inverse overhead_us (µs a sample); time_to_first_batch
    (s), from the start of the first epoch of a new loader to its first batch, so with the start of
    the workers; pss_mib, the largest PSS of the process tree seen after some batches of the warm-up
    and after the measured epoch. And samples, batches, the length of the last batch, and checksums:
    of the first batch's every byte (`first_batch`) and of some rows of each measured batch (`rows`).
    """
    from bench.loaders import open_loader

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
        for number, batch in enumerate(epoch, 1):
            if number % step == 0:
                pss = max(pss, memory_pss_mib())

        # Nothing of the warm-up is held while the time is taken.
        del epoch
        batch = ()
        found = []
        samples = task.batches * batch_size
        begin = time.perf_counter()
        for batch in loader.epoch(samples):
            found.append(checksums.part(batch))
        seconds = time.perf_counter() - begin
        pss = max(pss, memory_pss_mib())
    return {
        "metrics": {"throughput": samples / seconds, "overhead_us": seconds / samples * 1e6,
                    "time_to_first_batch": time_to_first_batch, "pss_mib": pss},
        "samples": samples, "batches": len(found), "last_batch": len(batch),
        "first_batch": first, "rows": found,
    }
