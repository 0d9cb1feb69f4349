"""The group `peers`: this loader against torch's DataLoader, torchdata.nodes, spdl and a bare loop.

The samples are JPEGs, and cheap samples of several shapes, with which the loader's own cost shows.
This loader chooses to copy samples into the batch one by one, or to stack all of them. The variant
loader-stack always stacks, to test whether the choice is right.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ftbench.measure import epochs
from ftbench.plan.case import Amount
from ftbench.plan.comparisons import (
    FT,
    GIL,
    NODES,
    SPDL,
    THREADS,
    TORCH,
    Comparison,
    ComparisonPlan,
)
from ftbench.plan.scenario import Scenario, Task
from ftbench.scenarios import memory, raw, spdl_io
from ftbench.scenarios.pillow import DecodedImages, PillowDataset, of_images

NAME = "peers"
DESCRIPTION = "this loader against torch's DataLoader, torchdata.nodes, spdl and a bare loop"
METRICS = ("throughput", "time_to_first_batch", "memory_mib")
LENGTH = 65_536
FEATURES = 16


class Made:
    """Dataset of LENGTH samples that are made on demand: sample i is MAKE[kind](self, i)."""

    def __init__(self, kind: str, batch_size: int = 1):
        import numpy
        import torch

        self.tensor, self.array, self.float32 = torch.full, numpy.full, numpy.float32
        self.rows = torch.arange(LENGTH * FEATURES, dtype=torch.float32).reshape(LENGTH, FEATURES)
        self._kind, self.batch_size = kind, batch_size

    def __len__(self) -> int:
        return LENGTH

    def __getitem__(self, index: int) -> Any:
        return MAKE[self._kind](self, index)


MAKE: dict[str, Callable[[Made, int], Any]] = {
    "overhead-int": lambda _, index: index,
    "overhead-tensor": lambda of, index: of.rows[index],
    # Token ids, mask, types.
    "shapes-tokens": lambda of, index: (
        {name: of.tensor((512,), index) for name in ("ids", "mask", "types")} | {"label": index}
    ),
    "shapes-medium": lambda of, index: of.tensor((16_384,), float(index)),
    "shapes-leaves": lambda of, index: tuple(
        of.array(65_536, index + leaf, of.float32) for leaf in range(4)
    ),
    # Of one length within a batch, as with bucketing by length.
    "shapes-ragged": lambda of, index: of.tensor(
        (10_240 + 1024 * (index // of.batch_size * 7 % 21),), float(index)
    ),
}


def images(task: Task) -> PillowDataset:
    """Return the dataset of images, decoded by ftloader.decode for variant loader-decode,
    otherwise by Pillow.
    """
    return (DecodedImages if task.variant == "loader-decode" else PillowDataset)(task.paths)


_asked = functools.partial(Comparison, asked=True)
DECODE, LOOP = replace(FT, variant="loader-decode"), replace(FT, variant="loop")
OURS_GIL, NODES_GIL = THREADS["gil"], replace(NODES, config="gil")
DECODING = (
    _asked(FT, TORCH, "in all, against torch's processes"),
    _asked(FT, NODES),
    _asked(FT, SPDL),
    _asked(FT, LOOP, "what the loader costs"),
    _asked(DECODE, LOOP, "above what Pillow alone can give"),
)
# Comparisons for one batch size only, as they do not depend on it.
DECODING_ONCE = (
    _asked(FT, replace(SPDL, variant="spdl-samples")),
    _asked(GIL, TORCH, "no slower than torch where the GIL is"),
    _asked(OURS_GIL, NODES_GIL, "nor than its threads"),
    Comparison(FT, THREADS["ft-gil"], "effect of the GIL"),
)
COST = (
    _asked(FT, TORCH, "the loader's own cost"),
    _asked(OURS_GIL, NODES_GIL, "where the GIL is"),
    Comparison(OURS_GIL, TORCH, "where the GIL is"),
)
SHAPE = (
    _asked(FT, TORCH, "in all, against torch's processes"),
    _asked(FT, replace(FT, variant="loader-stack"), "the loader's choice of how to collate"),
)
MEMORY = (
    _asked(FT, TORCH, "samples that are all memory"),
    Comparison(FT, NODES),
    Comparison(FT, SPDL),
)


def _pillow(
    batch_size: int, batches: int, turns: int, plan: tuple[Comparison, ...], seconds: float
) -> Scenario:
    return of_images(
        name=f"peers-pillow-{batch_size}",
        group=NAME,
        description=f"JPEG decoding with Pillow, 640x408, plain dataset, batches of {batch_size} "
        f"in a full run",
        dataset=images,
        measure=epochs.measure,
        metrics=METRICS,
        plan=ComparisonPlan(plan),
        full=Amount(batch_size, batches, turns, seconds=seconds),
        quick=Amount(max(16, batch_size // 4), batches, 3, seconds=seconds * 0.35),
    )


def _cheap(
    name: str,
    sample: str,
    sample_bytes: int,
    plan: tuple[Comparison, ...],
    batch_size: int,
    batches: int,
    metric: str = "throughput",
) -> Scenario:
    return Scenario(
        name=f"peers-{name}",
        group=NAME,
        description=f"samples that cost little: {sample}",
        sample_bytes=sample_bytes,
        dataset=lambda task: Made(name, task.batch_size),
        measure=epochs.measure,
        metrics=(metric, *METRICS[1:]),
        plan=ComparisonPlan(plan),
        full=Amount(batch_size, batches, turns=3, seconds=150),
        quick=Amount(batch_size, batches // 4, turns=3, seconds=40),
    )


SCENARIOS = (
    _pillow(128, 8, 3, DECODING + DECODING_ONCE, 600),
    _pillow(512, 3, 2, DECODING, 400),
    spdl_io.SCENARIO,
    replace(
        _cheap(
            "raw", "one 2048x1024 int16 array from a file in the page cache", 4 << 20, MEMORY, 8, 30
        ),
        dataset=lambda task: raw.Shards(task.paths, 4 << 20),
        source="shards",
        quick=Amount(batch_size=4, batches_per_worker=20, turns=2, seconds=40),
    ),
    _cheap("overhead-int", "one int", 8, COST, 256, 500, "overhead_us"),
    _cheap("overhead-tensor", "one float32 tensor of 16 values", 64, COST, 256, 250, "overhead_us"),
    _cheap(
        "shapes-tokens", "three int64 tensors of 512 values and a label", 12_296, SHAPE, 64, 400
    ),
    _cheap("shapes-medium", "one float32 tensor of 64 KiB", 64 << 10, SHAPE, 64, 400),
    _cheap("shapes-leaves", "four float32 arrays of 256 KiB", 1 << 20, SHAPE, 64, 60),
    _cheap(
        "shapes-ragged", "one float32 tensor of 40 to 120 KiB, by batch", 80 << 10, SHAPE, 64, 300
    ),
    of_images(
        name="peers-startup",
        group=NAME,
        description="the first batch of JPEGs by a new loader, from the start of its workers",
        dataset=images,
        measure=epochs.measure,
        metrics=("time_to_first_batch",),
        plan=ComparisonPlan(
            (
                _asked(FT, TORCH, "all workers at the first batch, and none to fork"),
                Comparison(FT, NODES),
            )
        ),
        full=Amount(batch_size=128, batches_per_worker=2, seconds=130),
        quick=Amount(batch_size=32, batches_per_worker=2, seconds=40),
        one_rank="it times the starts of one loader",
    ),
    # Workers copy a dataset that is a long Python list (ftbench.scenarios.memory).
    Scenario(
        name="peers-memory",
        group=NAME,
        description="memory of 1,000,000 file names in a list and the workers that read them",
        sample_bytes=8,
        dataset=lambda _: memory.FileNames(as_array=False),
        measure=memory.measure,
        metrics=("memory_mib",),
        plan=ComparisonPlan(
            (
                _asked(FT, replace(FT, workers=1), "what more threads take"),
                Comparison(TORCH, replace(TORCH, workers=1), "what more processes take"),
                Comparison(FT, TORCH),
            )
        ),
        full=Amount(batch_size=1000, batches_per_worker=100, seconds=180),
        quick=Amount(batch_size=1000, batches_per_worker=50, seconds=50),
        one_rank="it follows the memory of one process over an epoch",
    ),
)
