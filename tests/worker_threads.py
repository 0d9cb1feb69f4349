"""Worker threads of the loader in this process, found by their names."""

import gc
import threading
import time
from collections.abc import Callable

PREFIX = "loader-worker"
"""Prefix of their names, before "-0", "-1", ... Users see it in stack dumps and warnings."""


def worker_threads() -> list[threading.Thread]:
    """Return the running worker threads of all iterators."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(PREFIX)]


def until_collected(
    condition: Callable[[], bool] = lambda: not worker_threads(), seconds: float = 60.0
) -> bool:
    """Collect garbage until *condition* holds, by default that all worker threads have ended; False
    if it never does.

    A worker refers to the dataset (and through it, maybe, to the iterator) until its sample is
    loaded, so one collection may come too early. Without the GIL a collection stops all threads, so
    that collections without a pause could leave the worker no time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return condition()
