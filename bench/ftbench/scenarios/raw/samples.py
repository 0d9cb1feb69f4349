"""What the scenarios of `raw` read, and how many gigabytes of it arrive in a second."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ftbench.measure import epochs
from ftbench.plan.scenario import Amount, Case, Scenario, Task, Turns

KIB, MIB = 1024, 1024 * 1024
COLUMNS = 1024
ITEM_BYTES = 2
SAMPLE_BYTES = 4 * MIB


class Shards:
    """Samples of `sample_bytes` that lie one after the other in files: sample i is an int16 array of 1024 columns.

    ``numpy.fromfile(path, int16, count, offset=...)``, with `tensors` as a torch tensor on the same memory.
    With `forget`, the kernel is asked to drop a sample from its page cache as soon as it is read, so that the
    next epoch finds it on the disk again. Immutable after construction, so threads may share it.
    """

    def __init__(self, paths: Sequence[str], sample_bytes: int, tensors: bool = False, forget: bool = False):
        import numpy

        # No modules: a start method other than fork pickles the dataset.
        self._fromfile, self._int16 = numpy.fromfile, numpy.int16
        self._paths, self._sample_bytes, self._forget = tuple(paths), sample_bytes, forget
        self._convert = None
        if tensors:
            import torch

            self._convert = torch.from_numpy
        # All shards have the same size.
        self._in_shard = os.path.getsize(paths[0]) // sample_bytes

    def __len__(self) -> int:
        return len(self._paths) * self._in_shard

    def __getitem__(self, index: int):
        shard, place = divmod(index, self._in_shard)
        offset = place * self._sample_bytes
        with open(self._paths[shard], "rb", buffering=0) as file:
            sample = self._fromfile(file, self._int16, self._sample_bytes // ITEM_BYTES, offset=offset)
            if self._forget:
                os.posix_fadvise(file.fileno(), offset, self._sample_bytes, os.POSIX_FADV_DONTNEED)
        sample = sample.reshape(-1, COLUMNS)
        return sample if self._convert is None else self._convert(sample)


class Records:
    """``pickle.load(file)["image"]``: sample i is the (2048, 1024) int16 array of a pickled record.

    Unpickling is Python's own work, done with the GIL held where there is one. Immutable after
    construction, so threads may share it.
    """

    def __init__(self, paths: Sequence[str]):
        import pickle

        self._load = pickle.load
        self._paths = tuple(paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        with open(self._paths[index], "rb") as file:
            return self._load(file)["image"]


def stacked(samples: list):
    """A batch as a numpy array, which torch's worker processes pickle; module level, for start methods like spawn."""
    import numpy

    return numpy.stack(samples)


def sized(name: str, title: str, sample_bytes: int, batch_size: int, quick_batches: int, **more) -> Case:
    """A case of samples of `sample_bytes`, measured in turns; a full run has four times the batches of a quick one."""
    more.setdefault("value", float(sample_bytes))
    more.setdefault("full", Amount(batch_size, quick_batches, turns=4))
    more.setdefault("quick", Amount(batch_size, quick_batches // 2, turns=2))
    return Case(
        name, title, {"sample_bytes": sample_bytes, **more.pop("parameters", {})}, sample_bytes=sample_bytes, **more
    )


def scenario(**fields: Any) -> Scenario:
    """A scenario of this group with these `fields`, and what all of them have in common where they say nothing."""
    common: dict[str, Any] = {
        "group": "raw",
        "sample": "one 2048x1024 int16 array",
        "sample_bytes": SAMPLE_BYTES,
        "source": "shards",
        "metrics": ("gb_per_s", "time_to_first_batch", "pss_mib"),
    }
    return Scenario(**{**common, **fields})


def measure(task: Task, **options: object) -> Turns:
    """ftbench.measure.epochs.measure with gb_per_s (1e9 bytes of samples a second) among the metrics."""
    result = yield from epochs.measure(task, **options)
    result["metrics"]["gb_per_s"] = result["metrics"]["throughput"] * task.parameters["sample_bytes"] / 1e9
    return result
