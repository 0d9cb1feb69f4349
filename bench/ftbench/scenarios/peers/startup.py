"""How long a training loop waits for its first batch."""

from __future__ import annotations

from ftbench import startup
from ftbench.chosen import Chosen, Comparison, Entry, at_most
from ftbench.scenario import Amount, Scenario
from ftbench.scenarios.peers.pillow import dataset
from ftbench.scenarios.pillow import HEIGHT, WIDTH

OURS, TORCH = Entry("ft", "loader-thread"), Entry("gil", "torch-process")

SCENARIO = Scenario(
    name="peers-startup",
    group="peers",
    description="the first batch of JPEGs by a new loader, from the start of its workers",
    sample="one 640x408 JPEG decoded to RGB uint8",
    sample_bytes=HEIGHT * WIDTH * 3,
    source="images",
    dataset=dataset,
    measure=startup.measure,
    metrics=("time_to_first_batch",),
    contest=Chosen(
        (
            Comparison(OURS, TORCH, at_most(1 / 3), "all workers at the first batch, and none to fork"),
            Comparison(OURS, Entry("ft", "nodes-thread")),
        )
    ),
    full=Amount(batch_size=128, batches_per_worker=2),
    quick=Amount(batch_size=32, batches_per_worker=2),
    seconds=130,
    quick_seconds=40,
)
