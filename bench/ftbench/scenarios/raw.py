"""The group `raw`: samples of plain bytes, from files into the training process.

Scientific detectors write values that cannot be compressed, and training on them needs 300 MB/s and
far more. The scenarios compute nothing: they measure how fast samples get to the consumer.
"""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ftbench.measure import epochs, gpu
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import USUAL, ComparisonPlan
from ftbench.plan.scenario import Scenario, Task, Turns

NAME = "raw"
DESCRIPTION = "incompressible scientific samples: GB/s into the training process (and onto a GPU)"
KIB, MIB = 1024, 1024 * 1024
COLUMNS = 1024
ITEM_BYTES = 2
SAMPLE_BYTES = 4 * MIB


class Shards:
    """Dataset of samples that lie back to back in files: int16 arrays of 1024 columns, or torch
    tensors if `tensors`.

    With `forget`, the kernel drops each sample from its page cache once it is read.
    """

    def __init__(
        self, paths: Sequence[str], sample_bytes: int, tensors: bool = False, forget: bool = False
    ):
        import numpy

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
            sample = self._fromfile(
                file, self._int16, self._sample_bytes // ITEM_BYTES, offset=offset
            )
            if self._forget:
                os.posix_fadvise(file.fileno(), offset, self._sample_bytes, os.POSIX_FADV_DONTNEED)
        sample = sample.reshape(-1, COLUMNS)
        return sample if self._convert is None else self._convert(sample)


class Records:
    """Dataset of pickled records: sample i is the array ``pickle.load(file)["image"]``. Unpickling
    holds the GIL.
    """

    def __init__(self, paths: Sequence[str]):
        self._paths = tuple(paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        with open(self._paths[index], "rb") as file:
            return pickle.load(file)["image"]


def dataset(task: Task) -> Shards | Records:
    """Return the case's dataset. In a case with ``cold``, it drops each sample from the page cache
    after reading it.
    """
    case = task.parameters
    if task.scenario.case(task.case).source == "records":
        return Records(task.paths)
    return Shards(
        task.paths, case["sample_bytes"], case.get("tensors", False), case.get("cold", False)
    )


def measure(task: Task) -> Turns:
    """Measure as ftbench.measure.epochs does, with the further metric gb_per_s (1e9 bytes of
    samples a second).

    These parameters of the case change the measurement:

    - cold: if true, files are first dropped from the page cache; if false, they are first read into
      it.
    - pickled: batches are numpy arrays, which torch's worker processes pickle.
    - pinned: every batch is copied to the GPU, from pinned memory without blocking (true) or from
      other memory (false). A thread copies batches of worker processes to pinned memory; worker
      threads build their batches there.
    """
    import numpy

    case = task.parameters
    if case.get("cold"):
        from ftbench.machine.page_cache import NotDropped, drop_all

        try:
            drop_all(task.paths)
        except NotDropped as error:
            if error.left < 0.9:  # another program's doing, so another trial may succeed
                raise
            return {"unavailable": str(error)}
    elif "cold" in case:
        for path in task.paths:
            Path(path).read_bytes()
    options: dict[str, Any] = {"collate_fn": numpy.stack} if case.get("pickled") else {}
    batch_sums = None
    if "pinned" in case:
        options["pin_memory"], batch_sums = case["pinned"], gpu.OnGpu(case["pinned"])
    result = yield from epochs.measure(task, batch_sums, **options)
    result["metrics"]["gb_per_s"] = result["metrics"]["throughput"] * case["sample_bytes"] / 1e9
    return result


def _case(name: str, title: str, source: str | None = None, **parameters: Any) -> Case:
    """Return a case with samples of SAMPLE_BYTES."""
    return Case(
        name,
        title,
        {"sample_bytes": SAMPLE_BYTES, **parameters},
        sample_bytes=SAMPLE_BYTES,
        source=source,
    )


def _sized(name: str, sample_bytes: int, batch_size: int, batches: int) -> Case:
    """Return a case with samples of *sample_bytes*."""
    full, quick = (
        Amount(batch_size, batches, turns=6),
        Amount(max(1, batch_size // 2), batches // 2, turns=6),
    )
    title, parameters = f"{name.replace('-', ' ')} samples", {"sample_bytes": sample_bytes}
    return Case(name, title, parameters, float(sample_bytes), sample_bytes, full=full, quick=quick)


# The first case is never dropped, however short the run.
SIZES = (
    _sized("4-MiB", 4 * MIB, 8, 12),
    _sized("64-KiB", 64 * KIB, 256, 24),
    _sized("64-MiB", 64 * MIB, 1, 8),
    _sized("512-KiB", 512 * KIB, 32, 24),
    _sized("16-MiB", 16 * MIB, 2, 12),
)
# torch's worker processes move tensors through shared memory: a worker writes the batch there, and
# only a handle goes through the pipe. Everything else, numpy arrays included, is pickled into the
# pipe and unpickled by the consumer. Threads hand over an object.
TRANSFERS = (
    _case("numpy", "numpy samples, tensors as batches (shared memory)"),
    _case("numpy-pickled", "numpy samples, arrays as batches (pickled)", pickled=True),
    _case("unpickled", "samples unpickled in __getitem__, tensors as batches", "records"),
    _case("torch", "torch samples, tensors as batches (shared memory)", tensors=True),
    _case(
        "unpickled-pickled",
        "samples unpickled in __getitem__, arrays as batches (pickled)",
        "records",
        pickled=True,
    ),
)
# Cold: dropped from this kernel's page cache before the measurement, and each sample again once it
# is read (posix_fadvise(2), which needs no privilege).
TEMPERATURES = (
    _case("cold", "cold (from the disk)", cold=True),
    _case("warm", "warm (from memory)", cold=False),
)
PINNED = (
    _case("pinned", "pinned memory", pinned=True),
    _case("pageable", "ordinary memory", pinned=False),
)

_scenario = functools.partial(
    Scenario,
    group=NAME,
    sample_bytes=SAMPLE_BYTES,
    source="shards",
    dataset=dataset,
    measure=measure,
    metrics=("gb_per_s", "time_to_first_batch"),
)
METRICS = ("gb_per_s", "time_to_first_batch", "memory_mib")  # where a process has one case

SCENARIOS = (
    _scenario(
        name="raw-size",
        question="incompressible scientific samples: how many GB/s into the training process, "
        "by their size?",
        description="raw int16 samples of 64 KiB to 64 MiB from files in the page cache",
        plan=ComparisonPlan(USUAL, SIZES, quick_cases=("4-MiB", "64-KiB", "16-MiB")),
        case_axis="sample size",
        case_unit="bytes",
        inside=True,
        full=Amount(batch_size=8, batches_per_worker=12, turns=6, seconds=420),
        quick=Amount(batch_size=4, batches_per_worker=6, turns=6, seconds=120),
    ),
    _scenario(
        name="raw-transfer",
        question="numpy or torch, unpickled or raw, pickled or in shared memory: what does the "
        "way of a sample cost?",
        description="raw int16 samples of 4 MiB by kind of sample and of transfer, files in the "
        "page cache",
        plan=ComparisonPlan(USUAL, TRANSFERS, quick_cases=("numpy", "numpy-pickled", "unpickled")),
        case_axis="kind of sample and transfer",
        inside=True,
        full=Amount(batch_size=8, batches_per_worker=10, turns=6, seconds=420),
        quick=Amount(batch_size=4, batches_per_worker=5, turns=6, seconds=120),
    ),
    _scenario(
        name="raw-cache",
        question="incompressible scientific samples from the disk, not from memory: what is "
        "left of the difference?",
        description="raw int16 samples of 4 MiB with the page cache cold and warm",
        plan=ComparisonPlan(USUAL, TEMPERATURES),
        metrics=METRICS,
        case_axis="page cache",
        # One turn: other trials' reads in between would fill the page cache.
        full=Amount(batch_size=8, batches_per_worker=32, seconds=240),
        quick=Amount(batch_size=8, batches_per_worker=8, seconds=80),
        note="cold is this kernel's page cache; a host's or a disk's own cache is not dropped",
    ),
    _scenario(
        name="raw-pinned",
        question="incompressible scientific samples: how many GB/s onto the GPU, with and "
        "without pinned memory?",
        description="raw int16 samples of 4 MiB, each batch copied to the GPU",
        plan=ComparisonPlan(USUAL, PINNED),
        metrics=METRICS,
        case_axis="memory of a batch",
        full=Amount(batch_size=8, batches_per_worker=48, seconds=240),
        quick=Amount(batch_size=8, batches_per_worker=12, seconds=80),
        unavailable=gpu.why_none,
        one_rank="it copies to one GPU",
    ),
)
