"""Raw samples of 4 MiB: nothing is computed, all is memory."""

from __future__ import annotations

from ftbench.measure import epochs
from ftbench.plan.contest import Comparison, Contest, Entry, at_least
from ftbench.plan.scenario import Amount, Scenario

ROWS, COLUMNS = 1024, 1024


class RawArrays:
    """``np.fromfile(path, np.float32)``: sample i is a (1024, 1024) float32 numpy array.

    Immutable after construction, so threads may share it.
    """

    def __init__(self, paths: list[str]):
        import numpy

        self._fromfile, self._float32 = numpy.fromfile, numpy.float32
        self._paths = tuple(paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, index: int):
        return self._fromfile(self._paths[index], self._float32).reshape(ROWS, COLUMNS)


OURS, TORCH = Entry("ft", "loader-thread"), Entry("gil", "torch-process")

SCENARIO = Scenario(
    name="peers-raw",
    group="peers",
    description="raw float32 arrays of 4 MiB read from files in the page cache",
    sample="one 1024x1024 float32 array",
    sample_bytes=ROWS * COLUMNS * 4,
    source="arrays",
    dataset=lambda task: RawArrays(task.paths),
    measure=epochs.measure,
    metrics=("throughput", "time_to_first_batch", "pss_mib"),
    contest=Contest(
        (
            Comparison(OURS, TORCH, at_least(2.0), "samples that are all memory"),
            Comparison(OURS, Entry("ft", "nodes-thread")),
            Comparison(OURS, Entry("ft", "spdl")),
        )
    ),
    full=Amount(batch_size=8, batches_per_worker=30, turns=3),
    quick=Amount(batch_size=4, batches_per_worker=20, turns=2),
    seconds=160,
    quick_seconds=40,
)
