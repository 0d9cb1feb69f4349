"""The life of worker threads: started, told to end, waited for; at the end of the program, in a forked child.

A pool refers to threads and queues of tasks only, never to the iterator or (between tasks) to anything of the user's:
so a dropped iterator is collected, and its finalizer, which holds the pool, ends the threads. The queue of results is
the iterator's, and everybody else refers to it weakly, since an exception in it may lead back to the iterator.

Workers of iterators that are still referred to when the program ends are ended in two steps, with the technique of
``concurrent.futures.thread``:

1. When the main thread is done, before the interpreter waits for the other threads and before any function registered
   with ``atexit``, which may close what workers use. Pools used by a thread that the interpreter waits for go on.
2. When all those threads have ended, as a function of ``atexit``: pools that are left, and those made since.

Whoever waits does so for ``JOIN_LIMIT`` seconds at most, for all threads together. A worker that user code holds up is
named with its stack then, and left behind.

In a forked child the queues are not touched. Without the GIL each has a lock of the interpreter's, which a thread that
waited for it may have been handed, but not yet woken with, when the fork came: it then stays locked for ever.
"""

import atexit
import contextlib
import faulthandler
import multiprocessing.util
import os
import re
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from ftloader import fork
from ftloader.batch.fetch import Epoch
from ftloader.diagnosis.call_site import warn_user
from ftloader.workers.messages import Order, Task
from ftloader.workers.thread import WorkerContext, run_worker, send

JOIN_LIMIT = 5.0
"""Seconds to wait for workers that were told to end, the time torch grants its worker processes. A worker only needs
longer if a single sample does. Read at each wait."""


class WorkerThread(threading.Thread):
    """A thread that the exit of the interpreter waits for: here, with a limit.

    Python itself waits for a thread without a limit (``daemon=False``) or not at all. So it is started as a daemon
    thread, and is none to those that ask afterwards: a thread that user code starts in it is no daemon thread either.
    """

    pid = None
    """What asks for a worker's process must not find one: killing it would kill the program."""
    abandoned = False
    """Whether the exit has waited for it in vain."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments, daemon=True)

    def run(self) -> None:
        self._daemonic = False
        super().run()


class WorkerPool:
    """``len(contexts)`` worker threads, from ``start()`` on.

    With *private_queues* each worker has its own queue of tasks (iterable-style: a task is for a certain worker); else
    all take from one (map-style: whoever is free). What they have to say they put into *results*, for as long as that
    exists.

    ``_told_to_end`` goes from False to True once; ``epoch`` and ``consumer`` are replaced by the consumer only. All are
    read without a lock; every reader copes with a value that is a moment old.
    """

    def __init__(self, contexts: tuple[WorkerContext, ...], private_queues: bool, results: SimpleQueue) -> None:
        self._results = weakref.ref(results)
        self.epoch = Epoch()
        self.used_by_this_thread()
        self._told_to_end = False
        self._started: SimpleQueue[None] = SimpleQueue()  # one for each that ran worker_init_fn
        self._process = os.getpid()
        self._tasks: list[SimpleQueue] = [SimpleQueue() for _ in contexts] if private_queues else [SimpleQueue()]
        self.threads = tuple(
            WorkerThread(
                target=run_worker,
                args=(worker_id, [context], self._tasks[worker_id % len(self._tasks)], self._results, self._started),
                name=f"loader-worker-{worker_id}",
            )
            for worker_id, context in enumerate(contexts)
        )

    def start(self) -> None:
        """Starts the threads, once. Raises ``RuntimeError`` if the system refuses a thread, or nobody would end it any
        more; none is left then."""
        fork.renewed(self)
        _live.add(self)  # before the look at _closed, which _end_last sets before its look at _live
        try:
            if _closed:
                raise RuntimeError(
                    "worker threads cannot be started any more: the interpreter exits, and functions "
                    "registered with atexit before the loader was imported are too late for it. Import "
                    "the loader before such a function is registered, or use num_workers=0 in it"
                )
            for thread in self.threads:
                thread.start()
        except BaseException as error:
            self.stop()
            if isinstance(error, Exception):  # else an interruption: no waiting
                self.join()
            raise

    def wait_until_started(self) -> None:
        """Waits until all workers have run ``worker_init_fn``, and warns if some have not in time."""
        deadline = time.monotonic() + JOIN_LIMIT
        for waiting in range(len(self.threads), 0, -1):
            try:
                self._started.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                warn_user(
                    f"worker_init_fn of {waiting} worker threads has not returned within {JOIN_LIMIT:g} s: if "
                    "it seeds random, NumPy or torch, that will reach the whole program",
                    RuntimeWarning,
                )
                return

    def used_by_this_thread(self) -> None:
        """The calling thread asks for batches."""
        self.consumer = weakref.ref(threading.current_thread())

    def outlives_main_thread(self) -> bool:
        """Whether the consumer is a thread that the interpreter waits for, and runs."""
        thread = self.consumer()
        is_main = thread is None or thread is threading.main_thread()
        return not is_main and not thread.daemon and thread.is_alive()  # type: ignore[union-attr]

    @property
    def orphaned(self) -> bool:
        """Whether this is a forked child, in which the threads do not exist. Asked of the system, since finalizers run
        in the child before any function that could note it."""
        return os.getpid() != self._process

    @property
    def stopped(self) -> bool:
        """Whether the workers have been told to end, or are in another process."""
        return self._told_to_end or self.orphaned

    def put(self, task: Task, worker_id: int | None = None) -> None:
        """Queues *task* for worker *worker_id*, or for whichever is free if None."""
        self._tasks[worker_id or 0].put(task)

    def begin_epoch(self, epoch: Epoch) -> None:
        """What is left of the previous epoch is no longer worked on."""
        self.epoch.cancelled = True
        self.epoch = epoch
        if self.stopped:  # by another thread meanwhile, which may have seen the old epoch
            epoch.cancelled = True

    def wake(self) -> None:
        """Lets every waiting worker run for a moment.

        In a free-threaded build an object that another thread drops is freed when the thread that created it next runs
        Python code, or by a garbage collection (biased reference counting, PEP 703). Without this, the last batches of
        an epoch would stay in memory while persistent workers wait for the next.
        """
        self._tell(Order.LOOK_UP)

    def _tell(self, order: Order) -> None:
        """Once to each worker: in a common queue nobody takes a second ``END``."""
        for tasks in self._tasks:
            for _ in range(len(self.threads) // len(self._tasks)):
                tasks.put(order)

    def stop(self) -> None:
        """Tells every worker to end after the sample in hand. Returns at once.

        May be called repeatedly and from anywhere, also from a finalizer in the midst of another call on the same
        queues: ``SimpleQueue.put`` is documented as reentrant for this.
        """
        self._told_to_end = True
        self.epoch.cancelled = True
        if self.orphaned:
            return
        _live.discard(self)
        self._tell(Order.END)
        send(self._results, None)  # wakes a consumer that waits in another thread

    def join(self) -> None:
        """Waits for the workers to end, after ``stop()``; a ``RuntimeWarning`` names those that have not."""
        if self.orphaned:
            return
        limit = JOIN_LIMIT
        if stuck := join_all(self.threads, limit):
            future = f"It ends as soon as it can; the interpreter's exit waits for it no longer than {limit:g} s."
            report_stuck(stuck, limit, future)

    def dispose(self) -> None:
        """For the finalizer of the iterator: ``stop()``, again if it was interrupted, and ``join()`` where that is
        safe. Whoever has stopped the pool before has waited, or must not be held up (an interruption)."""
        wait = not self.stopped and self.may_wait()
        self.stop()
        if wait:
            self.join()

    def may_wait(self) -> bool:
        """Whether a finalizer may wait for the workers: only in the thread that used the iterator (any other was merely
        hit by the garbage collection, and somebody may wait for it in turn), and not with a lock in hand that a thread
        needs for its first and last steps, or a fork."""
        thread = self.consumer()
        # Neither name is public. Before and after its own steps the module does not know a thread.
        lock, threads = threading._active_limbo_lock, threading._active  # type: ignore[attr-defined]
        is_this_thread = thread is not None and threads.get(threading.get_ident()) is thread
        return is_this_thread and not lock._is_owned() and not fork.registering._is_owned()  # type: ignore[attr-defined]

    def _at_fork_reinit(self) -> None:
        # The threads do not exist in this child, and are never waited for. But for one, if it was
        # a worker that forked. Should the user's code return to it, it finds its epoch cancelled.
        self.epoch.cancelled = True


# Waiting


def join_all(threads: Iterable[threading.Thread], limit: float) -> list[threading.Thread]:
    """Waits for *threads* to end, up to *limit* seconds in all. Returns those that have not, but for the calling
    thread, which cannot wait for itself, and those not started."""
    deadline = time.monotonic() + limit
    started = [thread for thread in threads if thread.ident not in (None, threading.get_ident())]
    for thread in started:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in started if thread.is_alive()]


def report_stuck(threads: list[threading.Thread], limit: float, consequence: str) -> None:
    """A ``RuntimeWarning`` that *threads* did not end within *limit* seconds, with the stack of each."""
    warn_user(
        f"{', '.join(thread.name for thread in threads)} did not end within {limit:.3g} s of being told to: a call "
        "into the dataset, collate_fn, worker_init_fn or a cache's source has not returned, or the machine gives it no "
        "time to run. "
        f"{consequence} Stack:\n{_stacks(threads)}",
        RuntimeWarning,
    )


def _stacks(threads: list[threading.Thread]) -> str:
    """The stacks of running threads as text: by ``faulthandler``, which stops all threads while it reads (CPython issue
    128400). Walking the frames of a running thread is not safe without the GIL."""
    try:
        # A file, since faulthandler writes to a descriptor; it names 100 threads at most.
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            stacks = dict(re.findall(r"hread (0x\w+).*\n((?: .*\n)*)", file.read()))
    except OSError as error:
        return f"(stacks not available: {error})\n"
    # With the system's id, which tells apart equally named workers of several loaders; without the first four frames
    # (threading's and WorkerThread's), which all have.
    return "\n".join(
        f"{thread.name} (thread {thread.native_id}, most recent call first):\n"
        + ("".join(stacks.get(f"0x{thread.ident:016x}", "").splitlines(True)[:-4]) or "  (not available)\n")
        for thread in threads
    )


# The end of the program


class Ending(Protocol):
    """What is ended with the program: a pool, or something else that has ``WorkerThread``s."""

    @property
    def threads(self) -> tuple[WorkerThread, ...]: ...

    def stop(self) -> None: ...

    def outlives_main_thread(self) -> bool: ...


def end_with_program(pool: Ending) -> None:
    """*pool* is told to end, and waited for, as pools are. In a forked child it is not."""
    _live.add(pool)


def forget(pool: Ending) -> None:
    """*pool* has been told to end."""
    _live.discard(pool)


# Pools not told to end. Without a lock, which a finalizer could not take: adding, discarding and
# copying are single atomic operations of a built-in set whose elements hash by identity.
_live: set[Ending] = set()
_closed = False  # goes from False to True once, in the second step


# The two steps; in the main thread.


def _end_first() -> None:
    _end([pool for pool in list(_live) if not pool.outlives_main_thread()])


def _end_last() -> None:
    global _closed
    _closed = True
    _end(list(_live))


def _end(pools: list[Ending]) -> None:
    """Ends *pools*, and waits for all workers that were told to end, now or before."""
    for pool in pools:
        pool.stop()
    going_on = {thread for pool in list(_live) for thread in pool.threads}
    workers = [thread for thread in threading.enumerate() if isinstance(thread, WorkerThread)]
    ending = [thread for thread in workers if thread not in going_on and not thread.abandoned]
    limit, began = JOIN_LIMIT, time.monotonic()
    try:
        stuck = join_all(ending, limit)
    except KeyboardInterrupt:  # Ctrl-C: the user has waited long enough
        limit = time.monotonic() - began
        stuck = join_all(ending, 0)
    for thread in ending:
        thread.abandoned = True  # so that the second step does not name it again
    if not stuck:
        return
    try:
        report_stuck(stuck, limit, "The interpreter exits without waiting any longer.")
    except Exception as error:  # where warnings are errors the warning itself: nothing must stop the exit
        with contextlib.suppress(Exception):  # stderr may be closed
            sys.stderr.write(f"{type(error).__name__}: {error}\n")


class _EndOfThread:
    """Kept in the local storage of the thread that forked, so that it dies with it. If it ends in the child as threads
    do, no exit hook runs, and the process lives for as long as any worker."""

    def __del__(self) -> None:
        for pool in list(_live or ()):  # None when modules have been torn down
            if not pool.outlives_main_thread():
                pool.stop()


_local = threading.local()


def _begin_anew_in_child() -> None:
    """Only the forking thread exists in the child, and it is the main thread there."""
    global _live, _closed, _local
    _live, _closed = set(), False
    _local = threading.local()
    _local.end = _EndOfThread()


def _register_last_step(_: object = None) -> None:
    atexit.register(_end_last)


threading._register_atexit(_end_first)  # type: ignore[attr-defined]  # not public
_register_last_step()
# A child of multiprocessing forgets the functions that its parent registered.
multiprocessing.util.register_after_fork(_register_last_step, _register_last_step)
fork.call_in_child(_begin_anew_in_child)
