"""Who loads: this project's loader in its ways, and the peers it is compared with, by name.

Names and needs only; the loaders themselves are in ftbench.measure.loaders, which imports what they are made
of. This module is read before anything is built or installed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Variant:
    """One way to load a dataset with workers."""

    name: str
    title: str
    """Its workers, in the plural, for a sentence: "loader threads"."""
    packages: tuple[str, ...] = ()
    """Distributions that it needs beside those of every trial, by normalised name."""
    processes: bool = False
    """Whether its workers are processes, which hand batches over in shared memory (/dev/shm)."""
    queued_per_worker: int = 0
    """Batches per worker that it may hold beyond the prefetch factor."""


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("loader-thread", "loader threads"),
        Variant("loader-process", "loader processes", processes=True),
        # Started otherwise than by the platform's default, which is fork.
        Variant("loader-spawn", "loader processes (spawn)", processes=True),
        Variant("loader-forkserver", "loader processes (forkserver)", processes=True),
        # It collates a batch after its last sample, as torch does.
        Variant("loader-stack", "loader threads that stack"),
        Variant("loader-decode", "loader threads with ftloader.decode"),
        Variant("serial", "serial loading"),
        Variant("torch-process", "torch DataLoader processes", processes=True),
        # Its mapper and its prefetcher each hold two batches a worker.
        Variant("nodes-thread", "torchdata.nodes threads", ("torchdata",), queued_per_worker=2),
        Variant("spdl", "spdl threads", ("spdl-core",), queued_per_worker=2),
        Variant("spdl-samples", "spdl threads, a sample each", ("spdl-core",), queued_per_worker=2),
        Variant("loop", "loop threads without a loader"),
        # They load nothing (ftbench.scenarios.contention).
        Variant("bare-thread", "bare threads"),
        Variant("bare-process", "bare processes"),
    )
}
