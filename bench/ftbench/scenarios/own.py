"""The user's dataset (--dataset FILE.py:NAME), and the look: a first trial, whose times decide the
amount of work.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from ftbench.measure import checksums, epochs
from ftbench.plan.case import Amount, Case
from ftbench.plan.scenario import OWN, Scenario, Task, TrialError, Turns
from ftbench.plan.waterfall import WaterfallPlan
from ftrun import host
from ftrun.errors import TargetError

# Seconds of work for one worker in a turn, and the usual batch size,
# unless samples take too long for it.
TURN_SECONDS, BATCH_SIZE = 0.3, 32
# Seconds that a batch takes in addition to its samples, with processes.
BATCH_SECONDS = 0.001
LOOKED_AT = 8
# A trial counts as hung after PATIENCE plus PATIENCE_TIMES times the time of one thread alone. The
# look, before which nothing is known of the dataset, counts as hung after LOOK_PATIENCE.
PATIENCE, PATIENCE_TIMES, LOOK_PATIENCE = 60.0, 3, 180.0


def _named(name: str, what: str) -> Any:
    """Return the user's object FILE.py:NAME, imported by ftrun.target;
    raises TrialError if that fails.

    `what` is the function of ftrun.target to call with `name`: "find" or "load".
    """
    from ftrun import target

    try:
        return getattr(target, what)(name)
    except TargetError as error:
        remedy = ""
        if isinstance(error.__cause__, ModuleNotFoundError):
            usual = "name it with --requirements FILE or in the file's inline metadata"
            remedy = f"; {host.derived_image() or usual}"
        raise TrialError(f"{error}{remedy}") from error


def dataset(task: Task):
    """Return the dataset that the task's target names;
    raises TrialError if it cannot be measured.
    """
    import torch.utils.data

    name = task.parameters["target"]
    target_object = _named(name, "load")
    if isinstance(target_object, torch.utils.data.IterableDataset):
        raise TrialError(
            f"{name} is iterable-style: it hands out its samples itself, so candidates cannot "
            f"be given the same work. "
            "Name a map-style dataset (with __getitem__ and __len__), such as the one behind it"
        )
    try:
        length = len(target_object)
    except (TypeError, NotImplementedError) as error:
        raise TrialError(
            f"{name} has no length: give it __len__, so that samples can be chosen"
        ) from error
    except (ValueError, OverflowError) as error:  # negative, or more than an index can hold
        raise TrialError(f"{name} has no usable length: {error}") from error
    if not length:
        raise TrialError(f"{name} is empty: where is its data? (in a container, below /data)")
    return target_object


def _options(task: Task) -> dict:
    """Return further arguments for loaders: {"collate_fn":
    the user's function}, or {} if there is none.
    """
    name = task.parameters.get("collate_fn")
    return {"collate_fn": _named(name, "find")} if name else {}


def measure(task: Task) -> Turns:
    """Measure as ftbench.measure.epochs does, with the user's collate_fn.

    Its batches may have any length, so the result has the batch size as `last_batch`: a trial
    checks that value.
    """
    result = yield from epochs.measure(task, **_options(task))
    return {**result, "last_batch": task.batch_size}


def _unsendable(batch: Any) -> str:
    """Return the error if the batch cannot be pickled, else "". torch's loader would wait forever
    for such a batch.
    """
    try:
        pickle.dumps(batch)
    except Exception as error:  # a user's class may raise anything
        return f"{type(error).__name__}: {error}"
    return ""


def _load(
    users_dataset: Any, number: int, take: Callable[[Any], object]
) -> Generator[None, None, float]:
    """Load the first *number* samples and pass them to *take*; return the seconds of loading. Each
    is a turn.
    """
    seconds = 0.0
    for position in range(number):
        yield
        index = position % len(users_dataset)
        begin = time.perf_counter()
        sample = users_dataset[index]
        seconds += time.perf_counter() - begin
        take(sample)
    return seconds


def look(task: Task) -> Turns:
    """Load `batch_size` samples twice; return their time and size,
    whether both were equal, and any pickling error.

    Each sample is a turn of its own, and so is each batch,
    so that the caller knows which one hangs (`located`).
    """
    from torch.utils.data import default_collate

    begin = time.perf_counter()
    users_dataset = dataset(task)
    opening = time.perf_counter() - begin
    collate = _options(task).get("collate_fn", default_collate)
    seconds, sums, size = 0.0, [], 0
    for _ in range(2):
        samples: list = []
        spent = yield from _load(users_dataset, task.batch_size, samples.append)
        seconds = spent / task.batch_size  # of the second time: files are in the page cache
        yield
        try:
            batch = collate(samples)
        except (RuntimeError, TypeError) as error:
            if collate is not default_collate:
                raise
            why, name = str(error).partition("\n")[0], task.parameters["target"]
            raise TrialError(
                f"samples of {name} cannot be made into a batch: {why}; name a --collate-fn"
            ) from error
        size = checksums.size(batch) // task.batch_size
        sums.append(checksums.whole(batch))
    return {
        "metrics": {"overhead_us": 1e6 * seconds},
        "samples": 2 * task.batch_size,
        "look": {
            "length": len(users_dataset),
            "sample_bytes": max(1, size),
            "seconds": seconds,
            "opening": opening,
            "repeats": sums[0] == sums[1],
            "unsendable": _unsendable(batch),
        },
    }


def search(task: Task) -> Turns:
    """Load the first `batch_size` samples, in this process and thread. Each is a turn of its own,
    as in `look`.
    """
    # which may be too many to keep
    yield from _load(dataset(task), task.batch_size, lambda sample: None)
    return {"metrics": {}, "samples": task.batch_size}


def copy(task: Task) -> dict:
    """Make a copy of the dataset, as each of `workers` threads would; raises TrialError if it
    cannot be copied, or the copies do not fit into memory.
    """
    from torch.utils.data import default_collate

    from ftloader.compat.torch_private import DatasetKind
    from ftloader.workers.copies import Copier, UserObjects

    collate = _options(task).get("collate_fn", default_collate)
    try:
        Copier(UserObjects(dataset(task), collate, None), DatasetKind.Map, task.workers).copy()
    except (TypeError, MemoryError) as error:
        raise TrialError(str(error)) from error
    return {"metrics": {}, "samples": 1}


def why(task: Task) -> Turns:
    """Load with `task.workers` threads that share the dataset, parts of it, or nothing: the
    measurement of ftbench.measure.sharing, for the parameters "rounds" and "seconds".
    """
    from torch.utils.data import default_collate

    from ftbench.measure import sharing

    users_dataset = dataset(task)
    collate = _options(task).get("collate_fn", default_collate)
    yield
    threads = sharing.Sharing(users_dataset, collate, task.workers)
    with contextlib.closing(threads):
        limits = task.parameters["rounds"], task.parameters["seconds"]
        result = yield from sharing.measure(threads, *limits)
    return {"metrics": {}, "samples": threads.samples, "sharing": result}


def located(task: Task, steps: int, message: str) -> str:
    """Return the *message* of a failed `look` or `search` with the step that failed, if the message
    lacks the dataset. The message of a failed `copy` names its attribute.

    *steps* is the number of steps that its trial had ended: its imports, the opening of the
    dataset, and then samples and batches.
    """
    target = task.parameters["target"]
    if not steps or task.scenario.name == COPY.name or target in message.partition("\n")[0]:
        return message
    if steps == 1:
        return f"opening {target}: {message}"
    index = (steps - 2) % (task.batch_size + 1)
    return (
        f"sample {index} of {target}: {message}"
        if index < task.batch_size
        else f"a batch of {target}: {message}"
    )


def amount(seconds: float, batch_size: int | None) -> Amount:
    """Return the amount of work in a turn, if loading a sample takes `seconds`. Without
    `batch_size`, choose one.
    """
    # A power of two, so that two runs of one dataset seldom differ in it.
    size = batch_size or 2 ** round(math.log2(min(BATCH_SIZE, max(1, TURN_SECONDS / 3 / seconds))))
    return Amount(size, max(2, round(TURN_SECONDS / (size * seconds + BATCH_SECONDS))), turns=10)


def scenario(target: str, collate_fn: str | None = None) -> Scenario:
    """Return the scenario that loads the user's dataset `target` (FILE.py:NAME).

    Its amounts of work are placeholders: `Measurement.look` sets
    them once it knows how long a sample takes.
    """
    cases = (Case("", target, {"target": target, "collate_fn": collate_fn}),)
    return Scenario(
        name=OWN,
        question="Your own dataset: threads or processes, with or without the GIL?",
        description=f"samples of {target}",
        sample_bytes=1,
        dataset=dataset,
        measure=measure,
        metrics=epochs.METRICS,
        plan=WaterfallPlan(cases, copies=True),
        full=Amount(BATCH_SIZE, batches_per_worker=4, turns=10, seconds=600),
        quick=Amount(BATCH_SIZE, batches_per_worker=4, turns=10, seconds=240),
        same_work=False,
    )


# Trials find these by name. The dataset is in the parameters of the case.
SCENARIO = scenario("")
WHY = replace(SCENARIO, name="dataset-why", measure=why, metrics=(), patience=LOOK_PATIENCE)
SEARCH = replace(SCENARIO, name="dataset-search", measure=search, metrics=(), patience=PATIENCE)
COPY = replace(SCENARIO, name="dataset-copy", measure=copy, metrics=(), patience=LOOK_PATIENCE)
LOOK = replace(
    SCENARIO, name="dataset-look", measure=look, metrics=("overhead_us",), patience=LOOK_PATIENCE
)
