"""The gain from workers: images are decoded and augmented with 0,
1, ... worker threads or processes.

Light augmentation is a random crop. Heavy augmentation adds a random affine map, blur, colours,
noise and erasing. All are torchvision's. All random numbers come from ftloader.sample_rng, so every
candidate does the same work and gives the same bits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ftbench.measure import epochs
from ftbench.plan.candidates import SERIAL
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import FT, GIL, OURS, Comparison, Side, grid
from ftbench.plan.scenario import Scenario, Task, Turns

SIDE = 224
SEED = 20261121


def _workers_bring(side: Side) -> Comparison:
    """Return the comparison of *side* with loading without workers. Quick runs make it only if
    *side* is FT or GIL, with the most and the fewest workers.
    """
    none = Side(side.config, SERIAL, workers=0)
    gain = Comparison(side, none, why="what workers bring", every_count=True, first_only=True)
    if side in (FT, GIL):
        return replace(gain, kind="headline", importance=0, quick="ends")
    return replace(gain, importance=4 if side.config == "ft-gil" else 2, quick="")


def dataset(task: Task) -> Any:
    """Return the augmented images of the task's case."""
    from ftbench.measure.augmentation import Augmented

    return Augmented(task.paths, task.case)


def measure(task: Task) -> Turns:
    """Seed torch's generator, from which loaders draw their base seed,
    and measure as ftbench.measure.epochs does.
    """
    import torch

    torch.manual_seed(SEED)
    return epochs.measure(task)


CASES = (
    Case("heavy", "heavy augmentation", full=Amount(16, 3, 6), quick=Amount(8, 4, 6)),
    Case("light", "light augmentation", full=Amount(64, 3, 6), quick=Amount(32, 4, 6)),
)

SCENARIO = Scenario(
    name="augment",
    question="When do workers pay for light and for heavy augmentation?",
    description="JPEG decoding with Pillow, then random augmentation with torchvision to 224x224 "
    "float32: light is a crop; heavy is an affine map, a crop, blur, colours, noise and erasing",
    sample_bytes=3 * SIDE * SIDE * 4,
    source="images",
    dataset=dataset,
    measure=measure,
    metrics=("throughput", "time_to_first_batch"),
    plan=grid(
        CASES, tuple(map(_workers_bring, (FT, GIL))), tuple(map(_workers_bring, OURS)), quick=""
    ),
    inside=True,
    case_axis="amount of work",
    full=Amount(64, 3, turns=6, seconds=900),
    quick=Amount(32, 4, turns=6, seconds=300),
    repeats=5,
)
