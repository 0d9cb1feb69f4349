"""Which worker threads there are, and who ends them when the interpreter exits or forks.

An iterator that is still referred to when the program ends (by a global, say) has workers
that somebody must tell to end, and wait for. That is done in two steps:

1. When the main thread is done, before the interpreter waits for the other threads and
   before any function registered with ``atexit``: workers would otherwise run into what
   such functions close. Pools used by a thread that the interpreter waits for are left
   alone, since that thread goes on.
2. When all those threads have ended, as a function of ``atexit``: pools that are left, and
   those made since. Registered when this module is imported, so it runs after functions
   that are registered later; they can use loaders. From then on no pool can be made.

Each step waits for ``joining.JOIN_LIMIT`` seconds at most, however many workers there are;
the second has somebody to wait for only if loaders were used after the first. Who has not
ended then is named in a warning and left behind.

The technique (a hook before the interpreter joins threads, no strong reference from a
thread to the object that it works for) is that of ``concurrent.futures.thread``.
"""

import atexit
import multiprocessing.util
import os
import threading
import time
from collections.abc import Collection
from typing import Protocol

from ftloader import joining


class Pool(Protocol):
    consumer: "Consumer"
    threads: tuple[joining.WorkerThread, ...]

    def stop(self) -> None: ...
    def orphan(self) -> None: ...


class Consumer:
    """A thread that uses iterators. ``ended`` goes from False to True once."""

    def __init__(self) -> None:
        thread = threading.current_thread()
        self._ident = thread.ident
        self.is_main_thread = thread is threading.main_thread()
        self._waited_for = not thread.daemon and not self.is_main_thread
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
        self._process = os.getpid()

    def __del__(self) -> None:
        self._consumer.ended = True
        if self._consumer.is_main_thread and _live and os.getpid() == self._process:
            # In a child forked by a thread which then ends as threads do: no exit hook runs,
            # and the process lives for as long as any worker. Otherwise there is nothing
            # left to stop (nor, when modules are torn down, the set). In the child of a
            # fork by another thread it is the parent's main thread whose storage goes.
            for pool in list(_live):
                if not pool.consumer.outlives_main_thread():
                    pool.stop()


class _Local(threading.local):
    consumer: Consumer | None = None
    end: _EndOfThread | None = None
    live_at_fork: Collection[Pool] = ()


_local = _Local()

# Adding, discarding and copying are single atomic operations of a built-in set whose
# elements hash by identity. So there is no lock, which a finalizer could not take.
_live: set[Pool] = set()  # not told to end
_running: set[joining.WorkerThread] = set()  # not seen to have ended, of live pools or not

_closed = False  # goes from False to True once, in the second step


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
    for thread in list(_running):  # those that nobody had to wait for
        if thread.ident is not None and not thread.is_alive():
            _running.discard(thread)
    # First added, then checked; the last step does it the other way round. So between
    # them they miss no pool.
    _live.add(pool)
    if _closed:
        _live.discard(pool)
        raise RuntimeError(
            "worker threads cannot be started any more: the interpreter exits, and functions "
            "registered with atexit before the loader was imported are too late for it. Import "
            "the loader before such a function is registered, or use num_workers=0 in it"
        )


def forget(pool: Pool) -> None:
    """*pool* has been told to end. Atomic; may be called from a finalizer."""
    _live.discard(pool)


def start(thread: joining.WorkerThread) -> None:
    """Starts *thread*, and waits for it at exit if nobody did before.

    Raises ``RuntimeError`` if the system refuses it.
    """
    _running.add(thread)
    try:
        thread.start()
    except BaseException:
        if thread.ident is None:
            _running.discard(thread)
        raise


def has_ended(thread: joining.WorkerThread) -> None:
    """*thread* was waited for, with success."""
    _running.discard(thread)


def _end_first() -> None:
    """The first step; in the main thread, before non-daemon threads are joined."""
    _end([pool for pool in list(_live) if not pool.consumer.outlives_main_thread()])


def _end_last() -> None:
    """The second step; in the main thread, when all other non-daemon threads have ended."""
    global _closed
    _closed = True
    _end(list(_live))


def _end(pools: list[Pool]) -> None:
    """Ends *pools*, and waits for all workers that were told to end, now or before."""
    for pool in pools:
        pool.stop()
    going_on = {thread for pool in list(_live) for thread in pool.threads}
    ending = [thread for thread in list(_running) if thread not in going_on]
    limit = joining.JOIN_LIMIT
    began = time.monotonic()
    try:
        stuck = joining.join_all(ending, limit)
    except KeyboardInterrupt:  # Ctrl-C: the user has waited long enough
        limit = time.monotonic() - began
        stuck = joining.join_all(ending, 0)
    for thread in ending:
        _running.discard(thread)  # so that the second step does not name it again
    if stuck:
        joining.report_abandoned(stuck, limit)


def _note_pools_before_fork() -> None:
    # For the child, where the set may be locked for ever: see worker_pool. A pool that another
    # thread registers from here on knows by itself what it is there.
    _local.live_at_fork = list(_live)


def _forget_note_in_parent() -> None:
    _local.live_at_fork = ()


def _begin_anew_in_child() -> None:
    """Only the forking thread exists in the child, and it is the main thread there."""
    global _live, _running, _local, _closed
    for pool in _local.live_at_fork:
        pool.orphan()
    _live, _running = set(), set()
    _local = _Local()
    _closed = False


def _register_last_step(_: object = None) -> None:
    atexit.register(_end_last)


threading._register_atexit(_end_first)  # type: ignore[attr-defined]  # not public
_register_last_step()
# A child of multiprocessing forgets the functions that its parent registered.
multiprocessing.util.register_after_fork(_register_last_step, _register_last_step)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_note_pools_before_fork, after_in_parent=_forget_note_in_parent, after_in_child=_begin_anew_in_child
    )
