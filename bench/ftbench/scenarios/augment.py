"""When do workers pay? Decoding and augmenting with 0, 1, ... workers, threads and processes.

Light augmentation is a random crop, heavy has a random affine map, blur, colours, noise and erasing
besides. All random numbers are of ftloader.sample_rng, so that every contestant does the same work and
gives the same bits, whoever loads which sample.
"""

from __future__ import annotations

from collections.abc import Iterable

from ftbench.measure import epochs
from ftbench.plan.contestants import CONFIGS, Contestant, Pair, plural
from ftbench.plan.scenario import Amount, Scenario, Task, Turns

SIDE = 224
SEED = 20261121
REPEATS = 5

NAME = "augment"
DESCRIPTION = "when do workers pay? light and heavy augmentation with 0, 1, ... workers"

SERIAL, THREADS, PROCESSES = "serial", "loader-thread", "loader-process"


class FromNoWorkers:
    """Threads and processes with every number of workers, and loading without any, in every configuration."""

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
        """(rank, contestant), as ftbench.plan.contestants.Contest says.

        With --quick the two curves of the headline alone: processes where the GIL is, threads where it is off.
        """
        configs, counts = list(configs), sorted(set(workers) - {0})
        most = counts[-1]
        headline = (
            {("gil", PROCESSES), ("ft", THREADS)}
            if {"gil", "ft"} <= set(configs)
            else {(configs[0], PROCESSES), (configs[-1], THREADS)}
        )
        result = []
        for config in configs:
            result.append((4 if config == "ft-gil" and len(configs) > 1 else 0, Contestant(config, SERIAL, 0)))
            for variant in (THREADS, PROCESSES):
                curve = (config, variant) in headline
                for count in counts:
                    if count == most:
                        rank = 0 if curve else 4 if config == "ft-gil" else 2
                    elif count == counts[0]:
                        rank = 1 if curve else 5
                    else:
                        rank = 3 if curve else 6
                    result.append((rank, Contestant(config, variant, count)))
        return [(rank, c) for rank, c in result if rank <= 1 or not quick]

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """Threads against processes, and what workers bring against none."""
        keys = {c.key: c for c in contestants}
        counts = sorted({c.workers for c in keys.values()} - {0}, reverse=True)
        wanted = []
        for n in counts:
            wanted.append(
                (
                    "headline",
                    f"ft threads / gil processes, x{n}: threads without the GIL against processes with it",
                    f"ft/{THREADS}/{n}",
                    f"gil/{PROCESSES}/{n}",
                )
            )
        for config in reversed(CONFIGS):
            for variant in (THREADS, PROCESSES):
                wanted += [
                    (
                        "workers",
                        f"{config} {plural(variant)} x{n} / {config} serial loading: what workers bring",
                        f"{config}/{variant}/{n}",
                        f"{config}/{SERIAL}/0",
                    )
                    for n in counts
                ]
        for n in counts:
            wanted.append(
                (
                    "gil",
                    f"ft threads / ft-gil threads, x{n}: effect of the GIL",
                    f"ft/{THREADS}/{n}",
                    f"ft-gil/{THREADS}/{n}",
                )
            )
            wanted.append(
                (
                    "build",
                    f"ft-gil threads / gil threads, x{n}: cost of the free-threaded build",
                    f"ft-gil/{THREADS}/{n}",
                    f"gil/{THREADS}/{n}",
                )
            )
            wanted += [
                (
                    "method",
                    f"threads / processes in {config}, x{n}",
                    f"{config}/{THREADS}/{n}",
                    f"{config}/{PROCESSES}/{n}",
                )
                for config in CONFIGS
            ]
        return [
            Pair(*each, metrics=("throughput",) if each[0] == "workers" else None)
            for each in wanted
            if each[2] in keys and each[3] in keys
        ]


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
        contest=FromNoWorkers(),
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
