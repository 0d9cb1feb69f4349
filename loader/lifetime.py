"""Which pools of worker threads are live, and who ends them when the interpreter exits.

Worker threads are not daemon threads: the interpreter waits for them when it exits, so
somebody has to tell them to end, also where an iterator is still referred to (by a
global, say). For a pool that the main thread or a daemon thread uses, that is the hook
that runs once the main thread is done. A pool used by another thread may go on, since
the interpreter waits for that thread too, and is ended together with it.

The technique (a hook before the interpreter joins threads, no strong reference from a
thread to the object that it works for) is that of ``concurrent.futures.thread``.
"""

import os
import threading
from typing import Protocol


class Pool(Protocol):
    consumer: "Consumer"

    def stop(self) -> None: ...
    def join(self) -> None: ...
    def orphan(self) -> None: ...


class Consumer:
    """A thread that uses iterators. ``ended`` goes from False to True once."""

    def __init__(self) -> None:
        thread = threading.current_thread()
        self._ident = thread.ident
        self._waited_for = not thread.daemon and thread is not threading.main_thread()
        self.ended = False

    def is_current_thread(self) -> bool:
        # By ident, since threading.current_thread() can take a lock and this is called
        # in finalizers; with ended, since the ident of an ended thread is used again.
        return self._ident == threading.get_ident() and not self.ended

    def outlives_main_thread(self) -> bool:
        """True if the interpreter waits for this thread, which runs."""
        return self._waited_for and not self.ended


class _EndOfThread:
    """Kept in a thread's local storage, so that it dies with the thread."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __del__(self) -> None:
        # First the mark, then the check; the hook does it the other way round. So
        # between them they miss no pool.
        self._consumer.ended = True
        if _exiting:
            for pool in list(_live):
                if pool.consumer is self._consumer:
                    pool.stop()


class _Local(threading.local):
    consumer: Consumer | None = None
    end: _EndOfThread | None = None


_local = _Local()

# Adding, discarding and copying are single atomic operations of a built-in set whose
# elements hash by identity. So there is no lock, which a finalizer could not take.
_live: set[Pool] = set()

_exiting = False  # goes from False to True once


def current_consumer() -> Consumer:
    """The calling thread."""
    consumer = _local.consumer
    if consumer is None:
        consumer = _local.consumer = Consumer()
        _local.end = _EndOfThread(consumer)
    return consumer


def register(pool: Pool) -> None:
    """Before the first thread of *pool* is started.

    Raises ``RuntimeError`` if nobody would end it any more.
    """
    _live.add(pool)
    if _exiting and not pool.consumer.outlives_main_thread():
        _live.discard(pool)
        raise RuntimeError("worker threads cannot be started while the interpreter exits")


def forget(pool: Pool) -> None:
    """*pool* has been told to end. Atomic; may be called from a finalizer."""
    _live.discard(pool)


def _end_all_at_exit() -> None:
    """Runs in the main thread when it is done, before non-daemon threads are joined."""
    global _exiting
    _exiting = True
    pools = [pool for pool in list(_live) if not pool.consumer.outlives_main_thread()]
    for pool in pools:
        pool.stop()
    for pool in pools:
        pool.join()


def _orphan_all_after_fork() -> None:
    """Only the forking thread exists in the child: no worker does."""
    for pool in list(_live):
        pool.orphan()
    _live.clear()


threading._register_atexit(_end_all_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_orphan_all_after_fork)
