"""What a sample is, and how its batch gets from a worker to the training process.

torch's worker processes move tensors through shared memory: a worker writes the batch there, and only a
handle goes through the pipe. Everything else, numpy arrays among it, is pickled into the pipe and unpickled
by the consumer. Threads hand over an object.
"""

from __future__ import annotations

from ftbench.plan.contest import USUAL, Contest
from ftbench.plan.scenario import Amount, Task, Turns
from ftbench.scenarios.raw import samples
from ftbench.scenarios.raw.samples import SAMPLE_BYTES, Records, Shards, scenario, sized, stacked


def _case(name: str, title: str, kind: str, pickled: bool, source: str):
    return sized(
        name,
        title,
        SAMPLE_BYTES,
        batch_size=8,
        quick_batches=10,
        value=None,
        source=source,
        parameters={"kind": kind, "pickled": pickled},
    )


CASES = (
    _case("numpy", "numpy samples, tensors as batches (shared memory)", "numpy", False, "shards"),
    _case("numpy-pickled", "numpy samples, arrays as batches (pickled)", "numpy", True, "shards"),
    _case("unpickled", "samples unpickled in __getitem__, tensors as batches", "record", False, "records"),
    _case("torch", "torch samples, tensors as batches (shared memory)", "torch", False, "shards"),
    _case(
        "unpickled-pickled", "samples unpickled in __getitem__, arrays as batches (pickled)", "record", True, "records"
    ),
)


def dataset(task: Task) -> Shards | Records:
    """The samples of the case's kind, 4 MiB each."""
    kind = task.parameters["kind"]
    return Records(task.paths) if kind == "record" else Shards(task.paths, SAMPLE_BYTES, tensors=kind == "torch")


def measure(task: Task) -> Turns:
    """GB/s with torch's default_collate, or with batches that are numpy arrays."""
    options = {"collate_fn": stacked} if task.parameters["pickled"] else {}
    return samples.measure(task, **options)


SCENARIO = scenario(
    name="raw-transfer",
    question="numpy or torch, unpickled or raw, pickled or in shared memory: what does the way of a sample cost?",
    description="raw int16 samples of 4 MiB by kind of sample and of transfer, files in the page cache",
    dataset=dataset,
    measure=measure,
    contest=Contest(USUAL, CASES, quick_cases=("numpy", "numpy-pickled", "unpickled")),
    cases=CASES,
    case_axis="kind of sample and transfer",
    full=Amount(batch_size=8, batches_per_worker=10, turns=4),
    quick=Amount(batch_size=8, batches_per_worker=5, turns=2),
    seconds=420,
    quick_seconds=100,
)
