"""Processes that end when the process that started them ends."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent dies (PR_SET_PDEATHSIG in prctl(2)). Linux only.

    If the parent is not the process `parent` any more, this process ends now.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def worker_init(_worker: int) -> None:
    """Make a worker process die with the process that started it; used as a DataLoader's worker_init_fn."""
    die_with_parent()
