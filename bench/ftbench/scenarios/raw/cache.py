"""The same files from the page cache and from the disk.

Cold means: dropped from this kernel's page cache, as posix_fadvise(2) can without any privilege, before the
measurement, and each sample again once it is read. A virtual machine's host, and the disk itself, have caches
of their own that nobody can drop from here.
"""

from __future__ import annotations

from pathlib import Path

from ftbench.plan.contest import USUAL, Contest
from ftbench.plan.scenario import Amount, Case, Task, Turns
from ftbench.scenarios.raw import samples
from ftbench.scenarios.raw.samples import SAMPLE_BYTES, Shards, scenario

# One turn: what others read meanwhile would be in the page cache.
FULL, QUICK = Amount(batch_size=8, batches_per_worker=32), Amount(batch_size=8, batches_per_worker=8)


def _case(name: str, title: str, cold: bool) -> Case:
    return Case(name, title, {"sample_bytes": SAMPLE_BYTES, "cold": cold}, sample_bytes=SAMPLE_BYTES)


CASES = (_case("cold", "cold (from the disk)", True), _case("warm", "warm (from memory)", False))


def unavailable() -> str | None:
    """Why the page cache cannot be dropped where the files are; None if it can."""
    from ftbench.data import images
    from ftbench.machine import page_cache

    return page_cache.why_not_droppable(Path(images.cache_directory()))


def dataset(task: Task) -> Shards:
    """Samples that are forgotten by the kernel once they are read, or not."""
    return Shards(task.paths, SAMPLE_BYTES, forget=task.parameters["cold"])


def measure(task: Task) -> Turns:
    """GB/s after all files were dropped from the page cache, or read into it.

    Raises ftbench.machine.page_cache.NotDropped if the kernel does not let go of them.
    """
    from ftbench.machine import page_cache

    if task.parameters["cold"]:
        page_cache.drop_all(task.paths)
    else:
        for path in task.paths:
            Path(path).read_bytes()
    return (yield from samples.measure(task))


SCENARIO = scenario(
    name="raw-cache",
    question="incompressible scientific samples from the disk, not from memory: what is left of the difference?",
    description="raw int16 samples of 4 MiB with the page cache cold and warm",
    dataset=dataset,
    measure=measure,
    contest=Contest(USUAL, CASES),
    cases=CASES,
    case_axis="page cache",
    full=FULL,
    quick=QUICK,
    seconds=240,
    quick_seconds=80,
    unavailable=unavailable,
    note="cold is this kernel's page cache; a host's or a disk's own cache is not dropped",
)
