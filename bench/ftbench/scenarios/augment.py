"""The gain from workers: images are decoded and augmented with 0, 1, ... worker threads or processes.

Light augmentation is a random crop. Heavy augmentation adds a random affine map, blur, colours, noise and erasing. All
random numbers come from ftloader.sample_rng, so every candidate does the same work and gives the same bits.
"""

from __future__ import annotations

from dataclasses import replace

from ftbench.measure import epochs
from ftbench.plan.candidates import CONFIGS
from ftbench.plan.case import Amount
from ftbench.plan.comparisons import FT, GIL, PROCESSES, THREADS, Comparison, Side, grid
from ftbench.plan.scenario import Scenario, Task, Turns

SIDE = 224
SEED = 20261121

NAME = "augment"
DESCRIPTION = "when do workers pay? light and heavy augmentation with 0, 1, ... workers"


def _workers_bring(side: Side) -> Comparison:
    """Return the comparison of *side*, with workers, to loading without workers. Quick runs compare FT and GIL only."""
    importance, quick = (0, "ends") if side in (FT, GIL) else (4 if side.config == "ft-gil" else 2, "")
    made = Comparison(side, Side(side.config, "serial", workers=0), why="what workers bring", kind="workers")
    return replace(made, importance=importance, every_count=True, quick=quick, first_only=True)


WORKERS = tuple(_workers_bring(sides[config]) for config in reversed(CONFIGS) for sides in (THREADS, PROCESSES))


def measure(task: Task) -> Turns:
    """Seed torch's generator, from which loaders draw their base seed, and measure as ftbench.measure.epochs does."""
    import torch

    torch.manual_seed(SEED)
    return epochs.measure(task)


def _scenario(amount: str, done: str, full: Amount, quick: Amount) -> Scenario:
    def dataset(task: Task):
        from ftbench.measure.augmentation import Augmented

        return Augmented(task.paths, amount)

    return Scenario(
        name=f"{NAME}-{amount}",
        group=NAME,
        question=f"When do workers pay for {amount} augmentation?",
        description=f"JPEG decoding with Pillow, then {amount} random augmentation to 224x224 float32",
        sample=f"one 640x408 JPEG decoded, {done}",
        sample_bytes=3 * SIDE * SIDE * 4,
        source="images",
        dataset=dataset,
        measure=measure,
        metrics=("throughput", "time_to_first_batch", "pss_mib"),
        plan=grid(more=WORKERS, quick=""),
        full=full,
        quick=quick,
        repeats=5,
    )


SCENARIOS = (
    _scenario("light", "cropped at random and standardised", Amount(64, 5, 3, 450), Amount(32, 4, 3, 120)),
    _scenario(
        "heavy",
        "mapped, cropped, blurred, coloured, with noise, and standardised",
        Amount(32, 3, 3, 500),
        Amount(32, 2, 2, 120),
    ),
)
