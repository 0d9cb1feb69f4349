"""What a loader itself takes: datasets whose samples cost nothing."""

from __future__ import annotations

from ftbench.measure import epochs
from ftbench.plan.contest import Comparison, Contest, Entry, at_most
from ftbench.plan.scenario import Amount, Scenario

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


OURS, TORCH = Entry("ft", "loader-thread"), Entry("gil", "torch-process")
CONTEST = Contest(
    (
        Comparison(OURS, TORCH, at_most(1.0), "the loader's own cost"),
        Comparison(Entry("gil", "loader-thread"), Entry("gil", "nodes-thread"), at_most(1.0), "where the GIL is"),
        Comparison(Entry("gil", "loader-thread"), TORCH, None, "where the GIL is"),
    )
)


def _scenario(name: str, sample: str, sample_bytes: int, dataset: type, batches_per_worker: int) -> Scenario:
    return Scenario(
        name=f"peers-overhead-{name}",
        group="peers",
        description=f"samples that cost nothing: {sample}",
        sample=sample,
        sample_bytes=sample_bytes,
        source="nothing",
        dataset=lambda _: dataset(),
        measure=epochs.measure,
        metrics=("overhead_us", "time_to_first_batch", "pss_mib"),
        contest=CONTEST,
        full=Amount(batch_size=256, batches_per_worker=batches_per_worker, turns=3),
        quick=Amount(batch_size=256, batches_per_worker=batches_per_worker // 4, turns=3),
        seconds=150,
        quick_seconds=40,
    )


SCENARIOS = (
    _scenario("int", "one int", 8, Integers, 500),
    _scenario("tensor", "one float32 tensor of 16 values", FEATURES * 4, SmallTensors, 250),
)
