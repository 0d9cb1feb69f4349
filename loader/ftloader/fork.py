"""The package's only fork hook (``os.register_at_fork``),
and locks that are free in a forked child.

A lock that another thread holds at a fork stays locked in the child forever. Objects that a child
may go on using get their locks from here. Hold such a lock for short steps only, which leave
nothing broken if a fork interrupts them.

Finalizers run where the last reference is dropped, or where garbage is collected: in any thread,
between any two steps, with any lock held. So no finalizer of this package takes a lock. It leaves a
note where it would need one, for a thread or for the next regular call. These are all finalizers,
and why none can wait for a lock:

- ``iterators.threads`` (``WorkerPool.dispose``) sets attributes and puts messages into queues,
  whose ``put()`` is reentrant. It waits for the workers, up to a limit, only in the thread that
  used the iterator, and not with a lock: see ``holds_a_lock``.
- ``iterators.processes`` (torch's) leaves the change of torch's map of workers to the next look
  into the map. Where it could wait for a lock, the next call of an iterator does its work.
- ``cache.epochs`` (``Fetchers.dropped``) puts a note into a queue, for which a thread waits.
- ``workers.exit`` (of a forked child's first thread) does what the first and the third do, and
  waits for no thread.
- ``decode.cuda`` (of a thread's decoder) waits for copies on the GPU, which need no thread.

No weak reference has a callback. Locks that are not made here are held
by workers and fetchers alone.
"""

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

# Guarded by ``registering``, which a fork waits for: so no other thread is changing the list then.
# Reentrant, since a finalizer may make an object that has a lock.
_known: list[weakref.ref] = []
registering = threading.RLock()
_when_to_tidy_up = 64

_functions: list[Callable[[], Any]] = []  # of modules, added while they are imported


def rlock() -> threading.RLock:
    """Return a new ``threading.RLock`` that is free in a forked child,
    even if a thread held it in the parent.
    """
    return renewed(threading.RLock())


def renewed[T](new: T) -> T:
    """Make every forked child call ``new._at_fork_reinit()``,
    which must not block. Return *new*.
    """
    # The object is not kept alive.
    global _when_to_tidy_up
    with registering:
        count = len(_known)
        if count >= _when_to_tidy_up:
            _when_to_tidy_up = 2 * count
            _known[:count] = [reference for reference in _known[:count] if reference() is not None]
            _when_to_tidy_up = 2 * len(_known) + 64
        _known.append(weakref.ref(new))
    return new


def holds_a_lock() -> bool:
    """Return True if the calling thread holds a lock made in this module, or one that starting and
    ending threads need.

    For finalizers, which then must not wait for other threads: one of these may wait for that lock.
    """
    needed_by_threads = threading._active_limbo_lock  # type: ignore[attr-defined]  # not public
    objects: list[Any] = [needed_by_threads, registering, *(reference() for reference in _known[:])]
    return any(lock._is_owned() for lock in objects if hasattr(lock, "_is_owned"))


def call_in_child(function: Callable[[], Any]) -> None:
    """Make every forked child call *function*,
    once the locks made in this module are free there.
    """
    _functions.append(function)


def _in_child() -> None:
    try:
        for new in [lock() for lock in _known]:
            if new is not None:  # not its truth: an iterator's length may be an error
                new._at_fork_reinit()
    finally:
        registering.release()
    for function in _functions:
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=registering.acquire, after_in_parent=registering.release, after_in_child=_in_child
    )
