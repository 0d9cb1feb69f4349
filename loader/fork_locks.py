"""Locks that a forked child finds free.

A fork copies a lock as it is. If another thread holds it at that moment, the child, where
that thread does not exist, waits for it for ever. Objects that a child may go on using (a
loader, what it has skipped, its state) therefore take their lock from here; what it guards
may then be half changed in the child, so it is for short steps that leave nothing broken.
"""

import os
import threading
import weakref

# Adding is a single atomic step of the set within; only the child, which has one thread,
# iterates over it. Locks compare and hash by identity.
_locks: "weakref.WeakSet[threading.Lock]" = weakref.WeakSet()


def lock() -> threading.Lock:
    """A new ``threading.Lock``, which is free in a child whoever held it in the parent."""
    new = threading.Lock()
    _locks.add(new)
    return new


def rlock() -> threading.RLock:
    """A new ``threading.RLock``, likewise."""
    new = threading.RLock()
    _locks.add(new)
    return new


def _free_all_in_child() -> None:
    for held in _locks:
        held._at_fork_reinit()  # as logging and concurrent.futures do


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_all_in_child)
