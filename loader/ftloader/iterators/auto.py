"""Handles ``num_workers="auto"``: reads the argument, makes the tuner, and adds up the workers'
times for it.
"""

import copy
import sys
import time
from typing import Any

from ftloader.diagnosis.limits import usable_cpus
from ftloader.diagnosis.recording import EpochRecord, WorkerTimes
from ftloader.iterators.tuner import NOTHING_YET, Totals, WorkerTuner
from ftloader.protocols import is_iterable

_MOST_WORKERS = 64  # with num_workers="auto", if no number is given


class Chosen(int):
    """Integer for a setting that the user left to the loader, which may then use other numbers
    while it runs.

    A library that rebuilds a loader from its attributes passes this object on. So the new loader
    may choose, too.
    """


def number_of_workers(given: Any) -> Any:
    """Return *given*, a loader's ``num_workers``; for "auto", the number of CPUs, as a ``Chosen``.

    Raise ``TypeError`` for any other string.
    """
    if not isinstance(given, str):
        return given
    if given != "auto":
        raise TypeError(f'num_workers must be a number or "auto", got {given!r}')
    return Chosen(usable_cpus())


def tuner_of(loader: Any) -> WorkerTuner | None:
    """Return a ``WorkerTuner`` that starts where the loader's previous tuner is;
    None if the number is fixed.
    """
    # Workers of an iterable-style dataset divide the data among themselves by their number. A
    # worker_init_fn is called before anything is loaded, since it may seed the program's
    # generators, which are then restored.
    if (
        not isinstance(loader.num_workers, Chosen)
        or is_iterable(loader)
        or loader.worker_init_fn is not None
    ):
        return None
    cpus, latest = usable_cpus(), loader._shared.tuner
    limits = loader.max_workers or max(_MOST_WORKERS, cpus), cpus
    if latest is None or latest.limits != limits:
        first: int = loader.num_workers
        if sys._is_gil_enabled():
            # Of several threads that compute in Python, all but one wait for the GIL, and switching
            # costs: begin with one.
            first = 1
        tuner = WorkerTuner(first, *limits)
    else:
        tuner = copy.copy(latest)  # another iterator may still use that one
        tuner.begin(NOTHING_YET)
    loader._shared.tuner = tuner
    return tuner


def totals(times: list[WorkerTimes], record: EpochRecord, batches: int, dispatched: int) -> Totals:
    """Return the ``Totals`` so far. *batches*: number handed over;
    *dispatched*: number given to workers.
    """
    return Totals(
        now=time.perf_counter(),
        waited=record.waited,
        batches=batches,
        samples=sum(worker.samples for worker in times),
        busy=sum(worker.loading + worker.collating for worker in times),
        cpu=sum(worker.cpu + worker.queued for worker in times),
        dispatched=dispatched,
    )
