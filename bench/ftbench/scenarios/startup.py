"""The wait of a training loop for its first batch, and from one epoch to the next.

Threads start quickly. A forked worker copies page tables. A spawned worker is a new interpreter
that imports what the dataset needs (torch alone takes a second) and unpickles the dataset. A worker
of a fork server does the same; the server is started once. With `persistent_workers=True` workers
start once, not in every epoch.
"""

from __future__ import annotations

import sys
import time

from ftbench.measure import checksums
from ftbench.measure.loaders import open_loader
from ftbench.plan.case import Amount, Case
from ftbench.plan.comparisons import (
    FT,
    GIL,
    METHODS,
    PROCESSES,
    SPAWN,
    Comparison,
    ComparisonPlan,
    Side,
)
from ftbench.plan.scenario import Scenario, Task

MIB = 1024 * 1024
VALUES, ITEM_BYTES = 1024, 8


class TableRows:
    """Dataset of the rows of a table of `size` bytes, such as annotations:
    sample i is a row of 1024 int64.
    """

    def __init__(self, size: int):
        import numpy

        self._rows = numpy.arange(size // ITEM_BYTES, dtype=numpy.int64).reshape(-1, VALUES)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int):
        return self._rows[index]


def measure(task: Task) -> dict:
    """Load an epoch and the first batch of a second epoch,
    without and then with persistent workers.

    Returns the metrics time_to_first_batch (s, of a new loader), epoch_gap (s, from the last batch
    of an epoch to the first batch of the next, with new workers) and epoch_gap_persistent (the same
    with persistent workers).
    """
    data, samples = task.dataset(), task.batches * task.batch_size
    batch_sums, started, gaps = checksums.Seen(), [], []
    for persistent in (False, True):
        with open_loader(task, data, persistent) as loader:
            begin = time.perf_counter()
            for number, batch in enumerate(loader.epoch(samples)):
                if number == 0:
                    started.append(time.perf_counter() - begin)
                if not persistent:
                    batch_sums.take(batch)
                if number == task.batches - 1:
                    last, begin = len(batch), time.perf_counter()
            epoch = loader.epoch(samples)
            batch = next(epoch)
            gaps.append(time.perf_counter() - begin)
            batch_sums.rows.append(
                checksums.part(batch)
            )  # of the second epoch, the first batch alone
            del epoch
    _end_fork_server()
    return {
        "metrics": {
            "time_to_first_batch": started[0],
            "epoch_gap": gaps[0],
            "epoch_gap_persistent": gaps[1],
        },
        **batch_sums.result(samples, last),
        "batches": len(batch_sums.rows) - 2,
    }


def _end_fork_server() -> None:
    """End the fork server, if one runs. Otherwise it outlives the trial, and its workers' CPU time
    is not counted.
    """
    module = sys.modules.get("multiprocessing.forkserver")
    if module is not None:
        module._forkserver._stop()  # there is no public function; CPython's own tests call this one


def _case(name: str, size: int) -> Case:
    return Case(
        name,
        f"a dataset of {name.replace('-', ' ')}",
        {"bytes": size},
        float(size),
        dataset_bytes=size,
    )


CASES = (
    _case("1-MiB", MIB),
    _case("256-MiB", 256 * MIB),
    _case("32-MiB", 32 * MIB),
    _case("1-GiB", 1024 * MIB),
)

SCENARIO = Scenario(
    name="startup",
    question="how long until the first batch, and from epoch to epoch, with a dataset of 1 MB "
    "to 1 GB to ship?",
    description="time to the first batch and between epochs, workers started in every way",
    sample_bytes=VALUES * ITEM_BYTES,
    dataset=lambda task: TableRows(task.parameters["bytes"]),
    measure=measure,
    metrics=("time_to_first_batch", "epoch_gap", "epoch_gap_persistent"),
    plan=ComparisonPlan(
        (
            Comparison(FT, GIL, "threads without the GIL against forked processes", "headline"),
            Comparison(FT, SPAWN, "against spawned processes"),
            Comparison(FT, Side("gil", "loader-forkserver"), "against a fork server"),
            Comparison(SPAWN, GIL, "spawn against fork"),
            Comparison(PROCESSES["ft"], GIL, "forked processes of both builds", quick=""),
            METHODS[0],
        ),
        CASES,
        quick_cases=("1-MiB", "256-MiB"),
    ),
    case_axis="size of the dataset object",
    case_unit="bytes",
    # More batches than are prefetched, so that every worker has had work when an epoch ends.
    full=Amount(batch_size=32, batches_per_worker=4, seconds=900),
    quick=Amount(batch_size=32, batches_per_worker=4, seconds=400),
    one_rank="it times the starts of one loader",
)
