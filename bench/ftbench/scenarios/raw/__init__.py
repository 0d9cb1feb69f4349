"""The group `raw`: samples that are nothing but bytes, from files into the training process.

Scientific detectors write values that no compressor makes smaller, and training on them needs 300 MB/s and
far more of them. Nothing is computed here: what is measured is memory, and how it gets to the consumer.
"""

from __future__ import annotations

from ftbench.plan.scenario import Scenario
from ftbench.scenarios.raw import cache, pinned, size, transfer

NAME = "raw"
DESCRIPTION = "incompressible scientific samples: GB/s into the training process (and onto a GPU)"

SCENARIOS: tuple[Scenario, ...] = (size.SCENARIO, transfer.SCENARIO, cache.SCENARIO, pinned.SCENARIO)
