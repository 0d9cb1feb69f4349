"""Memory of a trial with all its workers, and the measurement that is about nothing else."""

from __future__ import annotations

from bench import checksums
from bench.scenario import Task


def memory_pss_mib() -> float:
    """Proportional set size of this process and all its descendants, MiB.

    PSS divides what processes share among them, so that the sum counts it once.
    """
    import psutil

    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total / (1024 * 1024)


def measure(task: Task) -> dict:
    """Run one epoch and look at the memory when its last batch has come and the workers are still up.

    Returns pss_mib as the only metric; checksums as bench.epochs.
    """
    from bench.loaders import open_loader

    samples = task.batches * task.batch_size
    with open_loader(task, task.dataset(), persistent=True) as loader:
        found, first, batch = [], 0, ()
        for number, batch in enumerate(loader.epoch(samples)):
            if number == 0:
                first = checksums.whole(batch)
            found.append(checksums.part(batch))
        pss = memory_pss_mib()
    return {"metrics": {"pss_mib": pss}, "samples": samples, "batches": len(found),
            "last_batch": len(batch), "first_batch": first, "rows": found}
