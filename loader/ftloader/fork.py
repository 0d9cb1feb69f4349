"""What forking does to this package: the one hook, and locks that a forked child finds free.

A fork copies a lock as it is: one that another thread holds stays locked in the child for ever. Objects that a child
may go on using therefore take their lock from here. What it guards may be half changed in the child, so it is for short
steps that leave nothing broken.
"""

import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

# Guarded by registering, which a fork waits for: so no other thread is in the midst of
# changing the list then. Reentrant, since a finalizer may make an object that has a lock.
_known: list[weakref.ref] = []
registering = threading.RLock()
_when_to_tidy_up = 64

_functions: list[Callable[[], Any]] = []  # of modules, added while they are imported


def lock() -> threading.Lock:
    """A new ``threading.Lock``, which is free in a child whoever held it in the parent."""
    return renewed(threading.Lock())


def rlock() -> threading.RLock:
    """A new ``threading.RLock``, likewise."""
    return renewed(threading.RLock())


def guarded[**P, R](function: Callable[P, R], by: threading.RLock) -> Callable[P, R]:
    """*function*, which one thread at a time calls."""

    @functools.wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with by:
            return function(*args, **kwargs)

    return alone


def renewed[T](new: T) -> T:
    """*new*, whose ``_at_fork_reinit`` (so it is called in locks) is called in every child.

    It is not kept alive, and must not wait for anything there.
    """
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
    """For a function of a module, called in every child. All locks are free by then."""
    _functions.append(function)


def _in_child() -> None:
    for new in filter(None, [known() for known in _known]):
        new._at_fork_reinit()
    registering.release()
    for function in _functions:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=registering.acquire, after_in_parent=registering.release, after_in_child=_in_child)
