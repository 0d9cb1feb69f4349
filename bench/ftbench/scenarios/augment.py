"""When do workers pay? Decoding and augmenting with 0, 1, ... workers, threads and processes.

Light augmentation is a random crop, heavy has a random affine map, blur, colours, noise and erasing
besides. All random numbers are of ftloader.sample_rng, so that every contestant does the same work and
gives the same bits, whoever loads which sample.
"""

from __future__ import annotations

from ftbench.measure import epochs
from ftbench.plan.contest import FT, GIL, Comparison, Entry, grid
from ftbench.plan.contestants import CONFIGS
from ftbench.plan.scenario import Amount, Scenario, Task, Turns

SIDE = 224
SEED = 20261121
REPEATS = 5

NAME = "augment"
DESCRIPTION = "when do workers pay? light and heavy augmentation with 0, 1, ... workers"

SERIAL, THREADS, PROCESSES = "serial", "loader-thread", "loader-process"


def _workers_bring(config: str, variant: str) -> Comparison:
    """Against loading without any; a quick run has the headline's two curves alone."""
    who, curve = Entry(config, variant), (config, variant) in ((FT.config, FT.variant), (GIL.config, GIL.variant))
    return Comparison(
        who,
        Entry(config, SERIAL, 0),
        None,
        "what workers bring",
        "workers",
        0 if curve else 4 if config == "ft-gil" else 2,
        every_count=True,
        quick="ends" if curve else "",
        metrics=("throughput",),
    )


WORKERS = tuple(_workers_bring(config, variant) for config in reversed(CONFIGS) for variant in (THREADS, PROCESSES))


def measure(task: Task) -> Turns:
    """As measure.epochs, with the same random numbers for all: the loaders draw their seeds from torch's generator."""
    import torch

    torch.manual_seed(SEED)
    return epochs.measure(task)


def _scenario(amount: str, sample: str, full: Amount, quick: Amount, seconds: float, quick_seconds: float) -> Scenario:
    def dataset(task: Task):
        from ftbench.measure.augmentation import Augmented

        return Augmented(task.paths, amount)

    def picture(task: Task) -> bytes:
        from ftbench.measure import augmentation

        return augmentation.picture(task.paths, amount, SEED)

    return Scenario(
        name=f"{NAME}-{amount}",
        group=NAME,
        description=f"JPEG decoding with Pillow, then {amount} random augmentation to 224x224 float32",
        sample=sample,
        sample_bytes=3 * SIDE * SIDE * 4,
        source="images",
        dataset=dataset,
        measure=measure,
        metrics=("throughput", "time_to_first_batch", "pss_mib"),
        contest=grid(more=WORKERS, quick=""),
        full=full,
        quick=quick,
        seconds=seconds,
        quick_seconds=quick_seconds,
        question=f"When do workers pay for {amount} augmentation?",
        repeats=REPEATS,
        picture=picture,
    )


SCENARIOS: tuple[Scenario, ...] = (
    _scenario(
        "light",
        "one 640x408 JPEG decoded, cropped at random and standardised",
        Amount(64, batches_per_worker=5, turns=3),
        Amount(32, batches_per_worker=4, turns=3),
        450,
        120,
    ),
    _scenario(
        "heavy",
        "one 640x408 JPEG decoded, mapped, cropped, blurred, coloured, with noise, and standardised",
        Amount(32, batches_per_worker=3, turns=3),
        Amount(32, batches_per_worker=2, turns=2),
        500,
        120,
    ),
)
