"""Worker threads of the loader in this process, found by their names."""

import threading

PREFIX = "loader-worker"
"""Prefix of their names, before "-0", "-1", ... Users see it in stack dumps and warnings."""


def worker_threads() -> list[threading.Thread]:
    """Return the running worker threads of all iterators."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(PREFIX)]
