"""What workers make of a dataset that is a long Python list.

Worker processes begin as copies of the trial's process that share its memory until a page is written
to, and counting references writes to every object that is looked at: pytorch/pytorch#13246.
"""

from __future__ import annotations

from dataclasses import replace

from ftbench.measure import memory
from ftbench.plan.contest import Comparison, Contest, at_most
from ftbench.plan.scenario import Amount, Scenario
from ftbench.scenarios.memory import FileNames
from ftbench.scenarios.peers.entries import OURS, TORCH

OURS_ONE, TORCH_ONE = replace(OURS, workers=1), replace(TORCH, workers=1)

SCENARIO = Scenario(
    name="peers-memory",
    group="peers",
    description="memory of 1,000,000 file names in a list and the workers that read them",
    sample="the length of a file name",
    sample_bytes=8,
    dataset=lambda _: FileNames(as_array=False),
    measure=memory.measure,
    metrics=("pss_mib",),
    contest=Contest(
        (
            Comparison(OURS, OURS_ONE, at_most(1.1), "what more threads take"),
            Comparison(TORCH, TORCH_ONE, None, "what more processes take"),
            Comparison(OURS, TORCH),
        )
    ),
    full=Amount(batch_size=1000, batches_per_worker=100),
    quick=Amount(batch_size=1000, batches_per_worker=50),
    seconds=180,
    quick_seconds=50,
)
