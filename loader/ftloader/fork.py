"""The package's only fork hook (``os.register_at_fork``), and locks that are free in a forked child.

A lock that another thread holds at a fork stays locked in the child forever. Objects that a child may go on using get
their locks from here. Hold such a lock for short steps only, which leave nothing broken if a fork interrupts them.
"""

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

# Guarded by ``registering``, which a fork waits for: so no other thread is changing the list then. Reentrant, since a
# finalizer may make an object that has a lock.
_known: list[weakref.ref] = []
registering = threading.RLock()
_when_to_tidy_up = 64

_functions: list[Callable[[], Any]] = []  # of modules, added while they are imported


def rlock() -> threading.RLock:
    """Return a new ``threading.RLock`` that is free in a forked child, even if a thread held it in the parent."""
    return renewed(threading.RLock())


def renewed[T](new: T) -> T:
    """Make every forked child call ``new._at_fork_reinit()``, which must not block. Return *new*."""
    # The object is not kept alive.
    global _when_to_tidy_up
    with registering:
        count = len(_known)
        if count >= _when_to_tidy_up:
            _when_to_tidy_up = 2 * count
            _known[:count] = [known for known in _known[:count] if known() is not None]
            _when_to_tidy_up = 2 * len(_known) + 64
        _known.append(weakref.ref(new))
    return new


def call_in_child(function: Callable[[], Any]) -> None:
    """Make every forked child call *function*, once the locks made in this module are free there."""
    _functions.append(function)


def _in_child() -> None:
    try:
        for new in [known() for known in _known]:
            if new is not None:  # not its truth: an iterator's length may be an error
                new._at_fork_reinit()
    finally:
        registering.release()
    for function in _functions:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=registering.acquire, after_in_parent=registering.release, after_in_child=_in_child)
