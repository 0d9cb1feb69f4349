"""Loading from a local cache that grows: an epoch has all samples
that were fetched before its start (docs/cache.md).

Threads of the training process fetch from a source that gives RATE bytes a second and never ends.
Workers read the cached samples, epoch after epoch. Each epoch starts new worker processes, since
older processes do not know the newer samples. The samples of an epoch depend on timing, so they are
not compared.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ftbench.machine.usage import tree_usage
from ftbench.measure.loaders import open_loader
from ftbench.plan.case import Amount
from ftbench.plan.comparisons import USUAL, ComparisonPlan
from ftbench.plan.scenario import Scenario, Task

MIB = 1024 * 1024
SAMPLE_BYTES = MIB
RATE = 200e6
FETCHERS = 4
# An epoch has at most half of the budget: 128 samples. That is reached soon; then the oldest
# samples are evicted.
BUDGET = 256 * MIB
PREFIX = "ft-bench-cache-"
# The curves over the epochs, with their units.
CURVES = {
    "samples-of-an-epoch": "samples",
    "samples-there": "samples",
    "stall-before-an-epoch": "s",
    "into-the-cache": "MB/s",
    "out-of-the-cache": "MB/s",
}


class EndlessShards:
    """Source that repeats the samples of shards forever,
    at most RATE bytes a second. `_lock` guards `_next`.
    """

    def __init__(self, paths: Sequence[str]):
        self._paths = paths
        self._in_shard = os.path.getsize(paths[0]) // SAMPLE_BYTES
        self._lock = threading.Lock()
        self._next = 0.0

    def keys(self) -> Iterator[str]:
        """Yield the keys of the samples, "0", "1", "2", ..., without end."""
        return map(str, itertools.count())

    def read(self, key: str) -> bytes:
        """Return the bytes of the sample. Each read waits,
        so that all reads together do not exceed RATE.
        """
        with self._lock:
            due = self._next = max(time.monotonic(), self._next + SAMPLE_BYTES / RATE)
        shard, place = divmod(int(key) % (len(self._paths) * self._in_shard), self._in_shard)
        with open(self._paths[shard], "rb", buffering=0) as file:
            data = os.pread(file.fileno(), SAMPLE_BYTES, place * SAMPLE_BYTES)
        time.sleep(max(0.0, due - time.monotonic()))
        return data


def _remove_left() -> None:
    """Remove the temporary directories that killed trials left."""
    import psutil

    for left in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        if not psutil.pid_exists(int(left.name.removeprefix(PREFIX).partition("-")[0])):
            shutil.rmtree(left, ignore_errors=True)


def measure(task: Task) -> dict:
    """Load epochs of the samples in the cache, until `task.batches` batches are loaded.

    Returns the metrics gb_per_s (over the whole time, with the waits between epochs),
    time_to_first_batch (s, from the first fetch) and memory_mib (at the end), and the curves named
    in CURVES, with one value per epoch.
    """
    import numpy

    from ftloader.cache import GrowingCache, RawArray

    batches, first = 0, 0.0
    ends: list[float] = []
    curves: list[tuple[float, ...]] = []
    _remove_left()
    with tempfile.TemporaryDirectory(
        prefix=f"{PREFIX}{os.getpid()}-", ignore_cleanup_errors=True
    ) as directory:
        begin = time.perf_counter()
        with GrowingCache(
            task.dataset(),
            directory,
            BUDGET,
            FETCHERS,
            decode=RawArray(numpy.int16),
            min_samples=task.batch_size,
        ) as cache:
            epoch_began, before = begin, cache.statistics()
            while batches < task.batches:
                cache.set_epoch(len(ends))
                available = min(len(cache) // task.batch_size, task.batches - batches)
                with open_loader(task, cache, persistent=False) as loader:
                    for number, _ in enumerate(loader.epoch(available * task.batch_size)):
                        if not number:
                            stall = time.perf_counter() - epoch_began
                        first = first or time.perf_counter() - begin
                        batches += 1
                now, end = cache.statistics(), time.perf_counter()
                seconds = end - epoch_began
                fetched, read = (
                    (now - before).fetched_bytes,
                    available * task.batch_size * SAMPLE_BYTES,
                )
                curves.append(
                    (len(cache), now.samples, stall, fetched / seconds / 1e6, read / seconds / 1e6)
                )
                ends.append(end - begin)
                epoch_began, before = end, now
            seconds, memory = time.perf_counter() - begin, tree_usage().total
    over = {"title": "seconds", "values": ends}
    return {
        "metrics": {
            "gb_per_s": batches * task.batch_size * SAMPLE_BYTES / seconds / 1e9,
            "time_to_first_batch": first,
            "memory_mib": memory,
        },
        "samples": batches * task.batch_size,
        "batches": batches,
        "distributions": {
            name: {"unit": unit, "values": values, "over": over}
            for (name, unit), values in zip(CURVES.items(), zip(*curves, strict=True), strict=True)
        },
    }


SCENARIO = Scenario(
    name="cache",
    question="a local cache that grows from a remote source: how much reaches the training loop "
    "while it grows?",
    description=f"epochs over a growing cache, while samples come in at {RATE / 1e6:.0f} MB/s",
    sample_bytes=SAMPLE_BYTES,
    source="shards",
    # This is the source. The measurement makes the dataset from it.
    dataset=lambda task: EndlessShards(task.paths),
    measure=measure,
    metrics=("gb_per_s", "time_to_first_batch", "memory_mib"),
    plan=ComparisonPlan(USUAL),
    full=Amount(batch_size=16, batches_per_worker=120, seconds=420),
    quick=Amount(batch_size=16, batches_per_worker=60, seconds=120),
    one_rank="an epoch has what one process has fetched so far",
)
