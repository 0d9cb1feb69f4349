"""The measurement of most scenarios: a warm-up epoch, then some that are timed, in turn with other trials."""

from __future__ import annotations

import time

from ftbench.machine.cpu_time import cpu_seconds
from ftbench.measure import checksums
from ftbench.measure.memory import memory_pss_mib
from ftbench.plan.scenario import Task, Turns
from ftbench.stats.statistics import typical

METRICS = ("throughput", "cpu_per_1000", "time_to_first_batch", "pss_mib")


def measure(task: Task, **options: object) -> Turns:
    """Run the warm-up and the measured epochs; `options` are further arguments of the loader (ftbench.measure.loaders).

    Each measured epoch is a turn: it yields before. What is timed of it is its middle, from when every worker has
    finished a batch to when every worker has another one to build: starting and running empty belong to no batch.

    Returns the metrics: throughput (samples/s), typical of all turns (ftbench.stats.statistics.typical); its inverse
    overhead_us (µs a sample); cpu_per_1000 (s), the CPU time of the process and its workers for 1,000 samples, over
    all turns; time_to_first_batch (s), from the start of the first epoch of a new loader to its first batch,
    so with the start of the workers; pss_mib, the largest PSS of the process tree seen after some batches of the
    warm-up and after the measured epochs. And samples, batches, the length of the last batch, checksums: of the
    first batch's every byte (`first_batch`) and of some rows of each batch of the turns (`rows`); turn_seconds, and
    turn_began (seconds since 1970).
    """
    from ftbench.measure.loaders import open_loader

    batch_size = task.batch_size
    # Batches before and after those that are timed.
    around = max(1, task.workers)
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
        found, turn_seconds, turn_began, timed, last, cpu = [], [], [], 0, 0, 0.0
        for _ in range(task.turns):
            # Nothing is held while others have their turns and the time is taken.
            batch = ()
            yield
            used = cpu_seconds()
            for number, batch in enumerate(loader.epoch((task.batches + 2 * around) * batch_size), 1):
                # Of all of them: who has more workers begins to take the time later.
                found.append(checksums.part(batch))
                if number == around:
                    turn_began.append(time.time())
                    begin = time.perf_counter()
                elif around < number <= around + task.batches:
                    timed += 1
                    if number == around + task.batches:
                        turn_seconds.append(time.perf_counter() - begin)
                        last = checksums.length(batch)
            cpu += cpu_seconds() - used
        pss = max(pss, memory_pss_mib())
    throughput = task.batches * batch_size / typical(turn_seconds)
    return {
        "metrics": {
            "throughput": throughput,
            "overhead_us": 1e6 / throughput,
            "cpu_per_1000": 1000 * cpu / (task.turns * (task.batches + 2 * around) * batch_size),
            "time_to_first_batch": time_to_first_batch,
            "pss_mib": pss,
        },
        "samples": task.batches * batch_size * task.turns,
        "batches": timed,
        "last_batch": last,
        "first_batch": first,
        "rows": found,
        "turn_seconds": turn_seconds,
        "turn_began": turn_began,
    }
