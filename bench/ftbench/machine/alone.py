"""Notice of another run of the benchmark on the same machine: both would measure each other's load."""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

# In Linux's abstract namespace: no file remains, and the name is free as soon as its process has ended (unix(7)).
NAME = "\0ft-bench"
OTHER = "another benchmark is running on this machine: the two disturb each other. End one of them"


@contextlib.contextmanager
def claimed(results: Path, name: str = NAME) -> Iterator[bool]:
    """Mark this process as a running benchmark; yield False if another one is seen.

    Another one is seen if it runs in the same network namespace, so not in a container, or if its results go to the
    same folder, which containers of one checkout share with the host.
    """
    with contextlib.ExitStack() as stack:
        mark = stack.enter_context(socket.socket(socket.AF_UNIX))
        alone = True
        try:
            mark.bind(name)
        except OSError:
            alone = False
        # The folder is missing before the first run. Network file systems refuse locks of folders (flock(2)).
        with contextlib.suppress(OSError):
            folder = os.open(results, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, folder)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                alone = False
        yield alone
