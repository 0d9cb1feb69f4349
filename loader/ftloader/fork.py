"""Forks: the package's one hook, and locks that are free in a forked child.

A lock that another thread holds at a fork stays locked in the child forever. Objects that a child may go on using take
their locks from here. These locks are for short steps that leave nothing broken if the child sees them half done.
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


def lock() -> threading.Lock:
    """Return a new ``threading.Lock`` that is free in a forked child, even if a thread held it in the parent."""
    return renewed(threading.Lock())


def rlock() -> threading.RLock:
    """Return a new ``threading.RLock`` that is free in a forked child."""
    return renewed(threading.RLock())


def renewed[T](new: T) -> T:
    """Register *new*, whose ``_at_fork_reinit()`` runs in every child and must not wait. Return *new*."""
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
    """Run *function*, of a module, in every child, after all locks are free."""
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
