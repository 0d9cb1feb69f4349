"""Processes that end with the one that started them, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent dies, however that happens.

    Linux only (prctl(2)). With `parent`, ends now if that process is gone already.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def worker_init(_worker: int) -> None:
    """In a worker process: end with the trial, even if the trial is killed."""
    die_with_parent()
