"""Locks that a forked child finds free.

A fork copies a lock as it is. If another thread holds it at that moment, the child, where
that thread does not exist, waits for it for ever. Objects that a child may go on using (a
loader, what it has skipped, its state) therefore take their lock from here; what it guards
may then be half changed in the child, so it is for short steps that leave nothing broken.
"""

import os
import threading
import weakref

# Guarded by _registering, which a fork waits for: so no other thread is in the midst of
# changing the list then. Reentrant, since a finalizer may make an object that has a lock.
_locks: list[weakref.ref] = []
_registering = threading.RLock()
_when_to_tidy_up = 64


def lock() -> threading.Lock:
    """A new ``threading.Lock``, which is free in a child whoever held it in the parent."""
    return _registered(threading.Lock())


def rlock() -> threading.RLock:
    """A new ``threading.RLock``, likewise."""
    return _registered(threading.RLock())


def _registered(new):
    global _when_to_tidy_up
    with _registering:
        count = len(_locks)
        if count >= _when_to_tidy_up:
            _when_to_tidy_up = 2 * count
            _locks[:count] = [known for known in _locks[:count] if known() is not None]
            _when_to_tidy_up = 2 * len(_locks) + 64
        _locks.append(weakref.ref(new))
    return new


def _free_all_in_child() -> None:
    for known in _locks:
        held = known()
        if held is not None:
            held._at_fork_reinit()  # as logging and concurrent.futures do
    _registering.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_registering.acquire, after_in_parent=_registering.release, after_in_child=_free_all_in_child
    )
