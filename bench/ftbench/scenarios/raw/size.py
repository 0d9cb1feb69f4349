"""How many GB/s arrive in the training process, by the size of a sample: 64 KiB to 64 MiB."""

from __future__ import annotations

from ftbench.plan.contest import USUAL, Contest
from ftbench.plan.scenario import Amount, Task
from ftbench.scenarios.raw.samples import KIB, MIB, Shards, measure, scenario, sized

# Batches of 16 to 64 MiB. The first is the one that stays whatever the time.
CASES = (
    sized("4-MiB", "4 MiB samples", 4 * MIB, batch_size=8, quick_batches=12),
    sized("64-KiB", "64 KiB samples", 64 * KIB, batch_size=256, quick_batches=24),
    sized("64-MiB", "64 MiB samples", 64 * MIB, batch_size=1, quick_batches=8),
    sized("512-KiB", "512 KiB samples", 512 * KIB, batch_size=32, quick_batches=24),
    sized("16-MiB", "16 MiB samples", 16 * MIB, batch_size=2, quick_batches=12),
)


def dataset(task: Task) -> Shards:
    """Samples of the case's size."""
    return Shards(task.paths, task.parameters["sample_bytes"])


SCENARIO = scenario(
    name="raw-size",
    question="incompressible scientific samples: how many GB/s into the training process, by their size?",
    description="raw int16 samples of 64 KiB to 64 MiB from files in the page cache",
    sample="one int16 array of a detector's values",
    dataset=dataset,
    measure=measure,
    contest=Contest(USUAL, CASES, quick_cases=("4-MiB", "64-KiB", "64-MiB")),
    cases=CASES,
    case_axis="sample size",
    case_unit="bytes",
    full=Amount(batch_size=8, batches_per_worker=12, turns=4),
    quick=Amount(batch_size=8, batches_per_worker=6, turns=2),
    seconds=420,
    quick_seconds=100,
)
