"""Notice of another run of the benchmark on the same machine: both would measure each other's load."""

import contextlib
import socket
from collections.abc import Iterator

# In Linux's abstract namespace: no file remains, and the name is free as soon as its process has ended (unix(7)).
NAME = "\0ft-bench"
OTHER = "another benchmark is running on this machine: the two disturb each other. End one of them"


@contextlib.contextmanager
def claimed(name: str = NAME) -> Iterator[bool]:
    """Mark this process as a running benchmark; yield False if another one runs in this network namespace."""
    with socket.socket(socket.AF_UNIX) as mark:
        try:
            mark.bind(name)
        except OSError:
            yield False
        else:
            yield True
