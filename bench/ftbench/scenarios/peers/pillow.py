"""JPEG decoding with Pillow by all peers, with the dataset that people have."""

from __future__ import annotations

from ftbench.measure import epochs
from ftbench.plan.contest import Comparison, Contest, Entry, at_least
from ftbench.plan.scenario import Amount, Scenario, Task
from ftbench.scenarios.peers.entries import NODES, OURS, OURS_GIL, SPDL, TORCH
from ftbench.scenarios.pillow import DecodedImages, PillowDataset, of_images


def dataset(task: Task) -> PillowDataset:
    """The dataset of a task's variant: only loader-decode has another than the plain one."""
    return (DecodedImages if task.variant == "loader-decode" else PillowDataset)(task.paths)


DECODE, LOOP = Entry("ft", "loader-decode"), Entry("ft", "loop")
TARGETS = (
    Comparison(OURS, TORCH, at_least(1.9), "in all, against torch's processes"),
    Comparison(OURS, NODES, at_least(1.5)),
    Comparison(OURS, SPDL, at_least(1.5)),
    Comparison(OURS, LOOP, at_least(0.95), "what the loader costs"),
    Comparison(DECODE, LOOP, at_least(1.0), "above what Pillow alone can give"),
)
# Once is enough for what does not depend on the size of a batch.
OTHERS = (
    Comparison(OURS, Entry("ft", "spdl-samples"), at_least(1.5)),
    Comparison(Entry("gil", "loader-process"), TORCH, at_least(0.95), "no slower than torch where the GIL is"),
    Comparison(OURS_GIL, Entry("gil", "nodes-thread"), at_least(1.0), "nor than its threads"),
    Comparison(OURS, Entry("ft-gil", "loader-thread"), None, "effect of the GIL"),
)


def _scenario(
    batch_size: int, batches_per_worker: int, turns: int, comparisons: tuple[Comparison, ...], seconds: float
) -> Scenario:
    return of_images(
        name=f"peers-pillow-{batch_size}",
        group="peers",
        description=f"JPEG decoding with Pillow, 640x408, plain dataset, batches of {batch_size} in a full run",
        dataset=dataset,
        measure=epochs.measure,
        metrics=("throughput", "time_to_first_batch", "pss_mib"),
        contest=Contest(comparisons),
        full=Amount(batch_size, batches_per_worker, turns),
        quick=Amount(max(16, batch_size // 4), batches_per_worker, 3),
        seconds=seconds,
        quick_seconds=seconds * 0.35,
    )


SCENARIOS = (_scenario(128, 8, 3, TARGETS + OTHERS, 600), _scenario(512, 3, 2, TARGETS, 400))
