"""What workers make of a dataset that is a long Python list.

Worker processes begin as copies of the trial's process that share its memory until a page is written
to, and counting references writes to every object that is looked at: pytorch/pytorch#13246.
"""

from __future__ import annotations

from ftbench.measure import memory
from ftbench.plan.contest import Comparison, Contest, Entry, at_most
from ftbench.plan.scenario import Amount, Scenario

NAMES = 1_000_000
# Prime, so that the samples are names from all over the list, no name twice, as with shuffling.
STRIDE = 611_953


class FileNames:
    """A list of 1,000,000 file names; sample i is the length of one of them, from anywhere in the list.

    Immutable after construction, so threads may share it.
    """

    def __init__(self):
        self._names = [
            f"/data/train/class-{i % 1000:04}/image-of-this-class-{i:08}-{'x' * (i % 32)}.jpg" for i in range(NAMES)
        ]

    def __len__(self) -> int:
        return NAMES

    def __getitem__(self, index: int) -> int:
        return len(self._names[index * STRIDE % NAMES])


OURS, OURS_ONE = Entry("ft", "loader-thread"), Entry("ft", "loader-thread", workers=1)
TORCH, TORCH_ONE = Entry("gil", "torch-process"), Entry("gil", "torch-process", workers=1)

SCENARIO = Scenario(
    name="peers-memory",
    group="peers",
    description="memory of 1,000,000 file names in a list and the workers that read them",
    sample="the length of a file name",
    sample_bytes=8,
    source="nothing",
    dataset=lambda _: FileNames(),
    measure=memory.measure,
    metrics=("pss_mib",),
    contest=Contest(
        (
            Comparison(OURS, OURS_ONE, at_most(1.1), "what more threads take"),
            Comparison(TORCH, TORCH_ONE, None, "what more processes take"),
            Comparison(OURS, TORCH),
        )
    ),
    full=Amount(batch_size=1000, batches_per_worker=100),
    quick=Amount(batch_size=1000, batches_per_worker=50),
    seconds=180,
    quick_seconds=50,
)
