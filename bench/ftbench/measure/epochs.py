"""The measurement of most scenarios: a short epoch of a new loader in each turn,
alternating with other trials.
"""

from __future__ import annotations

import time
from statistics import fmean
from typing import Any, NamedTuple

from ftbench.machine.usage import cpu_seconds
from ftbench.measure import ranks
from ftbench.measure.checksums import Seen, length
from ftbench.measure.loaders import open_loader
from ftbench.plan.scenario import Task, Turns

METRICS = ("throughput", "cpu_per_1000", "time_to_first_batch", "memory_mib")
# The timed part of a turn ends after about this many seconds,
# even if not all batches of the task are loaded.
TURN_SECONDS = 1.0


class _WarmUp(NamedTuple):
    time_to_first_batch: float  # s
    memory: float  # the most memory, MiB
    batch_seconds: float  # waited for a batch after the first, on average (s)


def _warm_up(task: Task, dataset: Any, seen: Seen, options: dict) -> _WarmUp:
    """Load `task.warmup_batches` batches with a new loader;
    return the measured times and memory.
    """
    with open_loader(task, dataset, persistent=False, **options) as loader:
        ranks.meet()  # with several ranks, all open their loaders at once
        begin = time.perf_counter()
        epoch = loader.epoch(task.warmup_batches * task.batch_size)
        batch = seen.arrive(next(epoch))
        seen.wait()
        time_to_first_batch = time.perf_counter() - begin
        seen.take_first(batch)
        memory = ranks.memory()
        # Reading the page tables of many workers takes long: do so only twice more.
        step = max(1, task.warmup_batches // 2)
        waited = 0.0
        for number in range(1, task.warmup_batches):
            begin = time.perf_counter()
            batch = seen.arrive(next(epoch))  # hold the batch as long as a training loop would
            waited += time.perf_counter() - begin
            if number % step == 0:
                memory = max(memory, ranks.memory())
        del epoch
    return _WarmUp(time_to_first_batch, memory, waited / max(1, task.warmup_batches - 1))


def _timed_batches(task: Task, batch_seconds: float) -> int:
    """Return the number of batches that are timed in a turn.

    The number is `task.batches`, which is proportional to the number of workers, so that turns take
    equally long. Where the GIL lets only one worker compute at a time, or the machine is slow,
    these batches may take over TURN_SECONDS. In this case, the number is what fits into
    TURN_SECONDS, but at least two batches for each worker.
    """
    return min(
        task.batches, max(2 * max(1, task.workers), int(TURN_SECONDS / max(batch_seconds, 1e-9)))
    )


def measure(task: Task, seen: Seen | None = None, **options: object) -> Turns:
    """Measure a loader: a warm-up, then an epoch for each turn, with a new loader each time.

    A loader's speed varies by several percent with the addresses of its memory, so each turn opens
    a new loader. The timed part of an epoch starts when the loader's pipeline is full, and ends
    before any worker runs out of batches.

    *seen* consumes the batches (default: checksums.Seen). *options* are further arguments of the
    loader. With several ranks, each rank measures its own loader; ftbench.trial.job combines the
    results. Metrics returned:

    - throughput: the samples of all turns divided by their seconds (1/s); overhead_us: µs per
      sample, 1e6 / throughput;
    - cpu_per_1000: CPU time of the process and its workers for 1,000 samples, over the timed parts
      (s);
    - time_to_first_batch: from the start of a new loader to its first batch, start of the workers
      included (s);
    - memory_mib: the most memory of the process tree (Usage.total), read during the warm-up and
      after the last turn.
    """
    dataset, seen = task.dataset(), seen or Seen()
    # Batches before and after the timed ones.
    after = max(1, task.workers)
    before = max(after, task.warmup_batches)
    warm = _warm_up(task, dataset, seen, options)
    # equal in all ranks
    memory, timed = warm.memory, _timed_batches(task, max(ranks.meet(warm.batch_seconds)))
    turn_seconds, turn_began, last, cpu = [], [], 0, 0.0
    for turn in range(task.turns):
        # Hold no batch during other trials' turns and the timed part.
        batch = ()
        yield
        with open_loader(task, dataset, persistent=False, **options) as loader:
            for number, batch in enumerate(
                loader.epoch((before + timed + after) * task.batch_size), 1
            ):
                # Check all batches, not only timed ones:
                # with more workers the timed part starts later.
                batch = seen.arrive(batch)
                seen.take(batch)
                if number == before:
                    seen.wait()
                    turn_began.append(time.time())
                    cpu -= cpu_seconds()
                    begin = time.perf_counter()
                elif number == before + timed:
                    seen.wait()
                    turn_seconds.append(time.perf_counter() - begin)
                    cpu += cpu_seconds()
                    last = length(batch)
            if turn == task.turns - 1:
                memory = max(memory, ranks.memory())
    samples = timed * task.batch_size
    throughput = samples / fmean(turn_seconds)
    return {
        "metrics": {
            "throughput": throughput,
            "overhead_us": 1e6 / throughput,
            "cpu_per_1000": 1000 * cpu / (samples * task.turns),
            "time_to_first_batch": warm.time_to_first_batch,
            "memory_mib": memory,
        },
        **seen.result(samples * task.turns, last),
        "batches": timed * len(turn_seconds),
        "asked": timed * task.turns,
        "turn_seconds": turn_seconds,
        "turn_began": turn_began,
    }
