"""The user's own dataset (--dataset FILE.py:NAME), and the look at it that says how much of it makes a turn."""

from __future__ import annotations

import pickle
import time
from typing import Any

from ftbench.measure import checksums, epochs
from ftbench.plan.chain import Chain
from ftbench.plan.scenario import Amount, Case, Scenario, Task, TrialError, Turns

NAME = "dataset"
# Seconds of work for one worker that make a turn, and the batch that people use if samples are not too dear for it.
TURN_SECONDS, BATCH_SIZE = 0.3, 32
# What a batch costs beside its samples, with processes.
BATCH_SECONDS = 0.001
LOOKED_AT = 8
# A trial is taken to hang if it takes longer than this and so many times what one thread alone would.
PATIENCE, PATIENCE_TIMES = 60.0, 3


def dataset(task: Task):
    """The dataset that the task's target names; raises TrialError with the user's own traceback."""
    import torch.utils.data

    from ftrun import target

    name = task.parameters["target"]
    try:
        found = target.load(name)
    except target.TargetError as error:
        raise TrialError(str(error)) from error
    if isinstance(found, torch.utils.data.IterableDataset):
        raise TrialError(
            f"{name} is iterable-style: it hands out its samples itself, so contestants cannot be given the same work. "
            "Name a map-style dataset (with __getitem__ and __len__), such as the one behind it"
        )
    try:
        length = len(found)
    except (TypeError, NotImplementedError) as error:
        raise TrialError(f"{name} has no length: give it __len__, so that samples can be chosen") from error
    if not length:
        raise TrialError(f"{name} is empty: where is its data? (in a container, below /data)")
    return found


def _options(task: Task) -> dict:
    """What the loaders are given beside the dataset."""
    name = task.parameters.get("collate_fn")
    if not name:
        return {}
    from ftrun import target

    try:
        return {"collate_fn": target.find(name)}
    except target.TargetError as error:
        raise TrialError(str(error)) from error


def measure(task: Task) -> Turns:
    """ftbench.measure.epochs, with the user's collate_fn; what that makes of a batch may have any length."""
    result = yield from epochs.measure(task, **_options(task))
    return {**result, "last_batch": task.batch_size}


def _unsendable(batch: Any) -> str:
    """Why a worker process cannot hand the batch over; empty if it can. torch's loader would wait for it for ever."""
    try:
        pickle.dumps(batch)
    except Exception as error:  # a class of the user's own may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def look(task: Task) -> dict:
    """Load some samples twice: their time, their size in a batch, whether they are the same again and can be sent.

    And how long the dataset took to open.
    """
    from torch.utils.data import default_collate

    begin = time.perf_counter()
    found = dataset(task)
    opening = time.perf_counter() - begin
    collate = _options(task).get("collate_fn", default_collate)
    indices = range(min(LOOKED_AT, len(found)))
    seconds, sums, size = [], [], 0
    for _ in range(2):
        begin = time.perf_counter()
        samples = [found[index] for index in indices]
        seconds.append((time.perf_counter() - begin) / len(indices))
        batch = collate(samples)
        size = checksums.size(batch) // len(indices)
        sums.append(checksums.whole(batch))
    return {
        "metrics": {"overhead_us": 1e6 * min(seconds)},
        "samples": 2 * len(indices),
        "look": {
            "length": len(found),
            "sample_bytes": max(1, size),
            "seconds": min(seconds),
            "opening": opening,
            "repeats": sums[0] == sums[1],
            "unsendable": _unsendable(batch),
        },
    }


def scenario(target: str, collate_fn: str | None = None) -> Scenario:
    """The scenario of this target before anybody has looked at it."""
    parameters = {"target": target, "collate_fn": collate_fn}
    return Scenario(
        name=NAME,
        description=f"samples of {target}",
        sample=f"a sample of {target}",
        sample_bytes=1,
        dataset=dataset,
        measure=measure,
        metrics=epochs.METRICS,
        contest=Chain((Case("", target, parameters),)),
        full=Amount(batch_size=BATCH_SIZE, batches_per_worker=4, turns=10),
        quick=Amount(batch_size=BATCH_SIZE, batches_per_worker=4, turns=10),
        seconds=600,
        quick_seconds=240,
        question="Your own dataset: threads or processes, with or without the GIL?",
        cases=(Case("", target, parameters),),
        same_work=False,
    )


def amount(seconds: float, batch_size: int | None) -> Amount:
    """How much makes a turn of samples that take so long."""
    size = batch_size or max(1, min(BATCH_SIZE, round(TURN_SECONDS / 3 / seconds)))
    return Amount(size, max(2, round(TURN_SECONDS / (size * seconds + BATCH_SECONDS))), turns=10)


# As trials look them up: what they load is in the parameters of the case.
SCENARIO = scenario("")
LOOK = Scenario(
    name="dataset-look",
    description="a look at the user's own dataset",
    sample="a sample",
    sample_bytes=1,
    dataset=dataset,
    measure=look,
    metrics=("overhead_us",),
    contest=Chain(),
    full=Amount(batch_size=1, batches_per_worker=1),
    quick=Amount(batch_size=1, batches_per_worker=1),
    seconds=10,
    quick_seconds=10,
)
