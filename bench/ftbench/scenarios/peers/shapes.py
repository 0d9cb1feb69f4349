"""Samples of several values: small ones, large ones, and ones whose shape changes from batch to batch.

What they are compared with is the same threads with torch's default_collate after the last sample of a batch
(variant loader-stack), since whether samples are copied into the batch one by one is this loader's choice.
"""

from __future__ import annotations

from ftbench.measure import epochs
from ftbench.plan.contest import Comparison, Contest, Entry, at_least
from ftbench.plan.scenario import Amount, Scenario, Task

LENGTH = 16_384


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


OURS, STACK, TORCH = Entry("ft", "loader-thread"), Entry("ft", "loader-stack"), Entry("gil", "torch-process")


def _scenario(name: str, sample: str, sample_bytes: int, dataset, batches_per_worker: int) -> Scenario:
    return Scenario(
        name=f"peers-shapes-{name}",
        group="peers",
        description=f"samples that cost little: {sample}",
        sample=sample,
        sample_bytes=sample_bytes,
        source="nothing",
        dataset=dataset,
        measure=epochs.measure,
        metrics=("throughput", "time_to_first_batch", "pss_mib"),
        contest=Contest(
            (
                Comparison(OURS, TORCH, at_least(1.0), "in all, against torch's processes"),
                Comparison(OURS, STACK, at_least(0.9), "the loader's choice of how to collate"),
            )
        ),
        full=Amount(batch_size=64, batches_per_worker=batches_per_worker, turns=3),
        quick=Amount(batch_size=64, batches_per_worker=batches_per_worker // 4, turns=3),
        seconds=150,
        quick_seconds=40,
    )


def _ragged(task: Task) -> Ragged:
    return Ragged(task.batch_size)


SCENARIOS = (
    _scenario("tokens", "three int64 tensors of 512 values and a label", 3 * 512 * 8 + 8, lambda _: Tokens(), 400),
    _scenario("medium", "one float32 tensor of 64 KiB", 64 << 10, lambda _: Medium(), 400),
    _scenario("leaves", "four float32 arrays of 256 KiB", 1 << 20, lambda _: Leaves(), 60),
    _scenario("ragged", "one float32 tensor of 40 to 120 KiB, by batch", 80 << 10, _ragged, 300),
)
