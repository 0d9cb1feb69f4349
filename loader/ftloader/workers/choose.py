"""The choice between worker threads and worker processes, and its reason."""

import logging
import sys
from typing import Any, Literal, get_args

from torch.utils.data import IterDataPipe, MapDataPipe

from ftloader.state.format import NOTHING
from ftloader.workers.copies import Sources, sources_of

WorkerMethod = Literal["auto", "thread", "process"]
WORKER_METHODS = get_args(WorkerMethod)


def choose_workers(loader: Any) -> tuple[bool, Sources | None]:
    """Return (True for threads or False for processes, sources of the workers' user objects).

    None in place of the sources: they have not been made yet, or are not needed.
    """
    # "auto" chooses for each iterator, since a dataset may have opened a file,
    # and tells the logger ``ftloader``.
    if loader.worker_method != "auto":
        loader._shared.records.reason = f'worker_method="{loader.worker_method}"'
        return loader.worker_method == "thread", None
    reason, sources = reason_against_threads(loader), None
    if reason is None:
        # A saved state is loaded into the dataset before the workers' copies are made. So with a
        # state, only one copy is made here, to test that copying works.
        resumes = loader._shared.states.saved is not NOTHING
        try:
            sources = sources_of(loader, 1 if resumes else loader.num_workers)
        except TypeError as error:
            reason = str(error)
        if resumes:
            sources = None
    loader._shared.records.reason = reason or "the GIL is off"
    choice = "threads: the GIL is off"
    if reason is not None:
        choice = f"processes: {reason}"
    logging.getLogger("ftloader").info("worker_method='auto' takes %s", choice)
    return reason is None, sources


def reason_against_threads(loader: Any) -> str | None:
    """Return the reason why "auto" chooses processes, or None. The caller must check that copying
    the dataset works.
    """
    if loader.multiprocessing_context is not None:
        return "multiprocessing_context is given"
    if sys._is_gil_enabled():
        return "the GIL is on"
    if isinstance(loader.dataset, (IterDataPipe, MapDataPipe)):
        return "the dataset is a data pipe"
    return None


def check_thread_arguments(worker_method: Any, multiprocessing_context: Any, dataset: Any) -> None:
    """Raise ``ValueError`` if *worker_method* is "thread" and one
    of the other arguments does not allow threads.
    """
    if worker_method != "thread":
        return
    if multiprocessing_context is not None:
        raise ValueError(
            "multiprocessing_context says how worker processes are started, but "
            "worker_method='thread' uses none: "
            "leave it out, or use worker_method='process' (or 'auto', which then uses processes)"
        )
    if isinstance(dataset, (IterDataPipe, MapDataPipe)):
        raise ValueError(
            "an IterDataPipe or MapDataPipe cannot be loaded by worker threads: use "
            "worker_method='process' (or 'auto', which then uses processes), or write the pipeline "
            "as a Dataset or IterableDataset"
        )
