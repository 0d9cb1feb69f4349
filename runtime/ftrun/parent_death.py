"""Processes that end when the process that started them ends."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies, however that happens.

    Linux only (prctl(2)). If `parent` is given and is not the parent any more, this process ends now.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def worker_init(_worker: int) -> None:
    """Make a worker process end with its trial, even if the trial is killed."""
    die_with_parent()
