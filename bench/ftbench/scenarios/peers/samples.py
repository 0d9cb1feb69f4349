"""Samples that cost little or nothing: what a loader itself takes, and how it collates.

Of several shapes: an int, small and large tensors, several values, lengths that change from batch to batch, and arrays
of 4 MiB, where all is memory. The shapes are compared with the same threads and torch's default_collate after the last
sample of a batch (variant loader-stack), since whether samples are copied into the batch one by one is this loader's
choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ftbench.measure import epochs
from ftbench.plan.contest import Comparison, Contest, Entry, at_least, at_most
from ftbench.plan.scenario import Amount, Scenario, Task
from ftbench.scenarios.peers.entries import NODES, OURS, OURS_GIL, SPDL, TORCH

LENGTH = 65_536
FEATURES = 16


class Integers:
    """Sample i is the int i."""

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> int:
        return index


class SmallTensors:
    """Sample i is a float32 tensor of 16 values, a row of one that is made beforehand and only read."""

    def __init__(self):
        import torch

        self._rows = torch.arange(LENGTH * FEATURES, dtype=torch.float32).reshape(LENGTH, FEATURES)

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int):
        return self._rows[index]


class _Made:
    """Samples that are made when they are asked for, of nothing that is kept."""

    def __init__(self):
        import numpy
        import torch

        # No modules: a start method other than fork pickles the dataset.
        self._tensor, self._array, self._float32 = torch.full, numpy.full, numpy.float32

    def __len__(self) -> int:
        return LENGTH


class Tokens(_Made):
    """Sample i is a dict of three int64 tensors of 512 values (token ids, mask, types) and a label."""

    def __getitem__(self, index: int):
        return {name: self._tensor((512,), index) for name in ("ids", "mask", "types")} | {"label": index}


class Medium(_Made):
    """Sample i is a float32 tensor of 64 KiB."""

    def __getitem__(self, index: int):
        return self._tensor((16_384,), float(index))


class Leaves(_Made):
    """Sample i is a tuple of four float32 arrays of 256 KiB."""

    def __getitem__(self, index: int):
        return tuple(self._array(65_536, index + leaf, self._float32) for leaf in range(4))


class Ragged(_Made):
    """Sample i is a float32 tensor of 40 to 120 KiB, of another length in each batch, as bucketing by length has it."""

    def __init__(self, batch_size: int):
        super().__init__()
        self._batch_size = batch_size

    def __getitem__(self, index: int):
        bucket = index // self._batch_size * 7 % 21
        return self._tensor((10_240 + 1024 * bucket,), float(index))


class RawArrays:
    """``np.fromfile(path, np.float32)``: sample i is a (1024, 1024) float32 numpy array.

    Immutable after construction, so threads may share it.
    """

    def __init__(self, paths: list[str]):
        import numpy

        self._fromfile, self._float32 = numpy.fromfile, numpy.float32
        self._paths = tuple(paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        return self._fromfile(self._paths[index], self._float32).reshape(1024, 1024)


COST = Contest(
    (
        Comparison(OURS, TORCH, at_most(1.0), "the loader's own cost"),
        Comparison(OURS_GIL, Entry("gil", "nodes-thread"), at_most(1.0), "where the GIL is"),
        Comparison(OURS_GIL, TORCH, None, "where the GIL is"),
    )
)
SHAPE = Contest(
    (
        Comparison(OURS, TORCH, at_least(1.0), "in all, against torch's processes"),
        Comparison(OURS, Entry("ft", "loader-stack"), at_least(0.9), "the loader's choice of how to collate"),
    )
)
MEMORY = Contest(
    (
        Comparison(OURS, TORCH, at_least(2.0), "samples that are all memory"),
        Comparison(OURS, NODES),
        Comparison(OURS, SPDL),
    )
)


def _scenario(
    name: str,
    sample: str,
    sample_bytes: int,
    dataset: Callable[[Task], Any],
    contest: Contest,
    full: Amount,
    quick: Amount,
    metric: str = "throughput",
    source: str = "nothing",
) -> Scenario:
    return Scenario(
        name=f"peers-{name}",
        group="peers",
        description=f"samples that cost little: {sample}",
        sample=sample,
        sample_bytes=sample_bytes,
        source=source,
        dataset=dataset,
        measure=epochs.measure,
        metrics=(metric, "time_to_first_batch", "pss_mib"),
        contest=contest,
        full=full,
        quick=quick,
        seconds=150,
        quick_seconds=40,
    )


def _cost(name: str, sample: str, sample_bytes: int, dataset: type, batches: int) -> Scenario:
    amounts = Amount(256, batches, turns=3), Amount(256, batches // 4, turns=3)
    return _scenario(
        f"overhead-{name}", sample, sample_bytes, lambda _: dataset(), COST, *amounts, metric="overhead_us"
    )


def _shape(name: str, sample: str, sample_bytes: int, dataset: Callable[[Task], Any], batches: int) -> Scenario:
    amounts = Amount(64, batches, turns=3), Amount(64, batches // 4, turns=3)
    return _scenario(f"shapes-{name}", sample, sample_bytes, dataset, SHAPE, *amounts)


SCENARIOS = (
    _scenario(
        "raw",
        "one 1024x1024 float32 array from a file in the page cache",
        4 << 20,
        lambda task: RawArrays(task.paths),
        MEMORY,
        Amount(batch_size=8, batches_per_worker=30, turns=3),
        Amount(batch_size=4, batches_per_worker=20, turns=2),
        source="arrays",
    ),
    _cost("int", "one int", 8, Integers, 500),
    _cost("tensor", "one float32 tensor of 16 values", FEATURES * 4, SmallTensors, 250),
    _shape("tokens", "three int64 tensors of 512 values and a label", 3 * 512 * 8 + 8, lambda _: Tokens(), 400),
    _shape("medium", "one float32 tensor of 64 KiB", 64 << 10, lambda _: Medium(), 400),
    _shape("leaves", "four float32 arrays of 256 KiB", 1 << 20, lambda _: Leaves(), 60),
    _shape("ragged", "one float32 tensor of 40 to 120 KiB, by batch", 80 << 10, lambda t: Ragged(t.batch_size), 300),
)
