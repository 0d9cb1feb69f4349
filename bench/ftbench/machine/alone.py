"""Detection of another run of the benchmark on this machine:
each run would measure the load of the other.
"""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

# In Linux's abstract namespace: no file remains, and the name is free
# as soon as its process has ended (unix(7)).
NAME = "\0ft-bench"
OTHER = "another benchmark is running on this machine: the two disturb each other. End one of them"


@contextlib.contextmanager
def claimed(results: Path, name: str = NAME) -> Iterator[bool]:
    """Mark this process as a running benchmark, in a context manager
    that yields False if another benchmark runs.

    Another benchmark is detected if it runs in the same network namespace (each container has its
    own), or if it writes to the same folder `results` (containers of one checkout share this folder
    with the host).
    """
    with contextlib.ExitStack() as stack:
        mark = stack.enter_context(socket.socket(socket.AF_UNIX))
        alone = True
        try:
            mark.bind(name)
        except OSError:
            alone = False
        # The folder is missing before the first run.
        # Network file systems refuse locks of folders (flock(2)).
        with contextlib.suppress(OSError):
            folder = os.open(results, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alone = False
        yield alone
