"""Locks of several libraries: recognising them, and telling if one is held."""

import contextlib
import functools
import threading
import types
from collections.abc import Iterator
from multiprocessing.synchronize import Condition, SemLock
from typing import Any

from ftloader.diagnosis.lookups import attributes_of, is_a
from ftsafety.audit.monitoring import Codes

_SHOWS_HELD = ("locked", "is_locked", "_is_owned")
"""Names of the methods or attributes by which locks
of different libraries tell if they are held.
"""


def is_lock(value: Any) -> bool:
    """True if *value* is a lock of threading, multiprocessing or another library,
    but not of asyncio.
    """
    with contextlib.suppress(Exception):
        kind: Any = type(value)
        return _is_lock_type(kind)
    return False


@functools.cache  # asked for every global variable of a running function
def _is_lock_type(cls: Any) -> bool:
    if issubclass(cls, (threading.Condition, threading.Semaphore, Condition, SemLock)):
        return True
    for name in ("acquire", "release"):
        if not callable(getattr(cls, name, None)):
            return False
    shows_held = any(hasattr(cls, name) for name in _SHOWS_HELD)
    return shows_held and not cls.__module__.startswith("asyncio")


def is_held(lock: Any) -> bool:
    """True if any thread holds *lock*. False if this cannot be found out."""
    with contextlib.suppress(Exception):
        if is_a(lock, (threading.Condition, Condition)):
            lock = lock._lock
        if is_a(lock, threading.Semaphore):
            return lock._value == 0
        if is_a(lock, SemLock):
            return lock._semlock._is_zero()
        return _shown_state(lock)
    return False


def _shown_state(lock: Any) -> bool:
    """Return the state that the lock shows by the first of _SHOWS_HELD that it has;
    False if it has none.
    """
    for name in _SHOWS_HELD:
        if hasattr(lock, name):
            state = getattr(lock, name)
            return bool(state() if callable(state) else state)
    return False


class Guards:
    """Locks that the thread that loads a sample may hold. Only one thread loads at a time."""

    def __init__(self, locks: list[Any], codes: Codes) -> None:
        """*locks*: those that the dataset refers to. *codes*: the dataset's functions."""
        self._locks = locks
        self._codes = codes
        self._held_before: set[int] = set()

    def start_sample(self) -> None:
        """Note the locks that are held before the sample, so by other threads."""
        self._held_before = {id(lock) for lock in self._locks if is_held(lock)}

    def hold(self, frame: types.FrameType) -> bool:
        """True if a lock of the dataset is held, or a lock in a variable
        of the functions running in *frame*.
        """
        if any(map(self._is_taken, self._locks)):
            return True
        locks = filter(is_lock, self._variables(frame))
        return any(map(self._is_taken, locks))

    def _is_taken(self, lock: Any) -> bool:
        return id(lock) not in self._held_before and is_held(lock)

    def _variables(self, frame: types.FrameType | None) -> Iterator[Any]:
        while frame is not None and frame.f_code in self._codes:
            # Attributes of self too: a lock may have been made after the observation began.
            attributes = attributes_of(frame.f_locals.get("self"))
            for variables in (frame.f_locals, frame.f_globals, attributes):
                yield from list(variables.values())
            frame = frame.f_back
