"""The loader's worker threads of this process, which tests look for by their name."""

import threading

PREFIX = "loader-worker"
"""What the name of each begins with; "-0", "-1", ... follows. Users see it too: in stack dumps and warnings."""


def worker_threads() -> list[threading.Thread]:
    """Those that run, of all iterators."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(PREFIX)]
