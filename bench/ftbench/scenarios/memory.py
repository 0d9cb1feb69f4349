"""Copy-on-access: the memory of a dataset of a million file names,
which every worker process may copy.

A forked worker and its parent share a page of memory until one of them writes to the page. Python
counts references in the objects, so even reading an object writes to its page. So a list of strings
is copied page by page during an epoch, and a numpy array, which is one object, is not
(pytorch/pytorch#13246). A spawned worker unpickles a copy when it starts. Threads copy nothing.
"""

from __future__ import annotations

from ftbench.machine.usage import Usage, tree_usage
from ftbench.measure import checksums
from ftbench.measure.loaders import open_loader
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import (
    EFFECT_OF_THE_GIL,
    FT,
    GIL,
    METHODS,
    SPAWN,
    Comparison,
    ComparisonPlan,
    with_every_count,
)
from ftbench.plan.scenario import Scenario, Task

NAMES = 1_000_000
# A prime: like shuffling, it takes names from all over the list, none twice.
STRIDE = 611_953
LONGEST_NAME = 87
# Readings of the memory in an epoch, evenly spaced; the last reading is at the last batch.
LOOKS = 24


class FileNames:
    """Dataset of 1,000,000 file names, in a list of str or an array of bytes. Sample i is the
    length of one name.
    """

    def __init__(self, as_array: bool):
        names = (
            f"/data/train/class-{i % 1000:04}/image-of-this-class-{i:08}-{'x' * (i % 32)}.jpg"
            for i in range(NAMES)
        )
        if as_array:
            import numpy

            self._names = numpy.fromiter(
                (name.encode() for name in names), f"S{LONGEST_NAME}", NAMES
            )
        else:
            self._names = list(names)

    def __len__(self) -> int:
        return NAMES

    def __getitem__(self, index: int) -> int:
        return len(self._names[index * STRIDE % NAMES])


def measure(task: Task) -> dict:
    """Run one epoch; return the largest memory_mib and uss_mib,
    and curves of both over the samples loaded.
    """
    samples = task.batches * task.batch_size
    looks = {round(task.batches * look / LOOKS) - 1 for look in range(1, LOOKS + 1)} | {0}
    batch_sums = checksums.Seen()
    usage: list[Usage] = []
    done: list[int] = []
    with open_loader(task, task.dataset(), persistent=True) as loader:
        for number, batch in enumerate(loader.epoch(samples)):
            batch_sums.take(batch)
            if number in looks:
                usage.append(tree_usage())
                done.append((number + 1) * task.batch_size)
    distributions = {
        "memory_mib": [measured.total for measured in usage],
        "uss_mib": [measured.uss for measured in usage],
    }
    over = {"title": "samples loaded", "values": done}
    return {
        "metrics": {name: max(values) for name, values in distributions.items()},
        **batch_sums.result(samples, len(batch)),
        "distributions": {
            name: {"unit": "MiB", "values": values, "over": over}
            for name, values in distributions.items()
        },
    }


CASES = (
    Case("list", "list of str", {"kept": "list"}, dataset_bytes=NAMES * (LONGEST_NAME + 57)),
    Case("array", "numpy array", {"kept": "array"}, dataset_bytes=NAMES * LONGEST_NAME),
)

SCENARIO = Scenario(
    name="memory",
    question="copy-on-access: how much memory does a list of a million file names take, times N "
    "workers?",
    description="memory of the whole process tree over an epoch that looks at up to 1,000,000 file "
    "names",
    sample_bytes=8,
    dataset=lambda task: FileNames(task.parameters["kept"] == "array"),
    measure=measure,
    metrics=("memory_mib", "uss_mib"),
    plan=ComparisonPlan(
        with_every_count(
            (
                Comparison(FT, GIL, "threads without the GIL against forked processes", "headline"),
                Comparison(FT, SPAWN, "against spawned processes"),
                Comparison(SPAWN, GIL, "spawn against fork"),
                METHODS[0],
                EFFECT_OF_THE_GIL,
            )
        ),
        CASES,
    ),
    case_axis="names kept in",
    # In a full run, two workers read every name once; more workers read names again.
    full=Amount(batch_size=1000, batches_per_worker=500, seconds=420),
    quick=Amount(batch_size=1000, batches_per_worker=100, seconds=180),
    one_rank="it follows the memory of one process over an epoch",
)
