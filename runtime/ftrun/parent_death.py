"""Ways for a process to be killed when its parent process dies."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
# Looked up once: after a fork, that would take longer than the fork.
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent(parent: int | None = None) -> None:
    """Ask the kernel to kill this process when its parent dies (PR_SET_PDEATHSIG
    in prctl(2)). Linux only.

    If `parent` is given and no longer the id of this process's parent,
    this process exits immediately.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def worker_init(_worker: int) -> None:
    """Ask the kernel to kill this worker process when its parent dies;
    used as a DataLoader's worker_init_fn.
    """
    die_with_parent()
