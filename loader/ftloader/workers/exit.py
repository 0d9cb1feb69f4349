"""Stops the remaining worker threads when the program ends, and waits for them, with a limit.

Threads are stopped in two steps, with the technique of ``concurrent.futures.thread``:

1. When the main thread has ended: all thread groups, except those that another running non-daemon
   thread uses. Python then waits for such threads, and calls ``atexit`` functions. These may close
   files that workers use.
2. When those threads have ended, in a function of ``atexit``: the remaining thread groups.

Each wait ends after ``JOIN_LIMIT`` seconds. A warning names the workers that user code still holds
up, with their stacks. The exit then goes on without them.
"""

import atexit
import contextlib
import faulthandler
import multiprocessing.util
import re
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any

from ftloader import fork
from ftloader.diagnosis.call_site import warn_user

# seconds to wait for workers that were told to end, as torch gives its own; read at each wait
JOIN_LIMIT = 5.0


class WorkerThread(threading.Thread):
    """Thread for which the interpreter's exit waits a limited time:
    not forever, and not 0 s as for daemon threads.

    A worker thread starts as a daemon thread. As soon as it runs, it clears its daemon flag, since
    threads that it starts inherit the flag.
    """

    # for code that looks for a worker's process: killing that one would kill the program
    pid = None
    abandoned = False  # True once the exit has waited for the thread in vain

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments, daemon=True)

    def run(self) -> None:
        self._daemonic = False
        super().run()

    @property
    def exitcode(self) -> int | None:
        """The exit code that a process would have: None until the worker has ended, then 0."""
        if self.ident is None or self.is_alive():
            return None
        return 0


def join_all(threads: Iterable[threading.Thread], limit: float) -> list[threading.Thread]:
    """Wait up to *limit* seconds for *threads*, except the calling one,
    to end. Return those that still run.
    """
    deadline = time.monotonic() + limit
    started = [thread for thread in threads if thread.ident not in (None, threading.get_ident())]
    for thread in started:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in started if thread.is_alive()]


def report_stuck(threads: list[threading.Thread], limit: float, consequence: str) -> None:
    """Warn, with stacks, that *threads* did not end within *limit* seconds. *consequence*: sentence
    on what follows.
    """
    warn_user(
        f"{', '.join(thread.name for thread in threads)} did not end within {limit:.3g} s of "
        f"being told to: a call "
        "into the dataset, collate_fn, worker_init_fn or a cache's source has not returned, or "
        "the machine gives it no "
        f"time to run. {consequence} Stack:\n{_stacks(threads)}",
        RuntimeWarning,
    )


def _stacks(threads: list[threading.Thread]) -> str:
    # faulthandler stops all threads for it (CPython issue 128400); else walking frames is not safe
    # without the GIL.
    try:
        # A file, since faulthandler writes to a descriptor; it names 100 threads at most.
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            stacks = dict(re.findall(r"hread (0x\w+).*\n((?: .*\n)*)", file.read()))
    except OSError as error:
        return f"(stacks not available: {error})\n"
    # The system's thread id tells equally named workers of several loaders apart. The first four
    # frames (threading's, WorkerThread's) are the same in all threads and left out.
    return "\n".join(
        f"{thread.name} (thread {thread.native_id}, most recent call first):\n"
        + (
            "".join(stacks.get(f"0x{thread.ident:016x}", "").splitlines(True)[:-4])
            or "  (not available)\n"
        )
        for thread in threads
    )


class ThreadGroup:
    """Base class for the group of worker threads of one iterator or one cache. The program's exit
    stops the groups.

    ``consumer`` refers to the thread that uses the workers' results. That thread sets it; any
    thread may read it.
    """

    threads: tuple[WorkerThread, ...]
    # the number of these threads that have been started; the thread that starts them sets it
    started = 0
    # sentence for the warning of threads that do not end, about what happens to them
    consequence: str

    def used_by_this_thread(self) -> None:
        self.consumer = weakref.ref(threading.current_thread())

    def outlives_main_thread(self) -> bool:
        """Return True if the group's consumer is a running non-daemon thread other
        than the main thread.
        """
        thread = self.consumer()
        is_main = thread is None or thread is threading.main_thread()
        return not is_main and not thread.daemon and thread.is_alive()  # type: ignore[union-attr]

    def start(self, number: int | None = None) -> None:
        """Start the threads, or the first *number*. If one cannot start,
        stop all and raise ``RuntimeError``.

        The same error is raised if the program is ending."""
        _live.add(self)
        try:
            if _closed:  # asked after adding: no later step would end a new thread
                raise RuntimeError(
                    "worker threads cannot be started any more: the interpreter exits, and "
                    "functions registered with atexit before the loader was imported are too late "
                    "for it. Import the loader before such a function is registered, or use "
                    "num_workers=0, and no cache, in it"
                )
            for thread in self.threads[:number]:
                thread.start()
                self.started += 1
        except BaseException as error:
            self.stop()
            if isinstance(error, Exception):  # else an interruption: no waiting
                self.join()
            raise

    def stop(self) -> None:
        """Tell the threads to end, without waiting for them.
        The program's exit then need not stop this group.
        """
        _live.discard(self)

    def dropped(self) -> None:
        """Do as ``stop`` without taking a lock, for finalizers,
        which may run in the middle of any other call.
        """
        self.stop()

    def join(self) -> bool:
        """Wait for the threads to end, after ``stop``.
        Warn and return False if some still run after ``JOIN_LIMIT``.
        """
        limit = JOIN_LIMIT
        if stuck := join_all(self.threads, limit):
            report_stuck(stuck, limit, self.consequence.format(limit=limit))
        return not stuck


def needs_no_error() -> bool:
    """Return True if ``next()`` of a stopped iterator shall end the calling thread silently,
    without an error.

    So it is while the program exits, if the caller is a daemon thread and no threads but daemons
    and workers still run.
    """
    if not (_begun and threading.current_thread().daemon):
        return False
    main = threading.main_thread()
    return all(
        thread.daemon or thread is main or isinstance(thread, WorkerThread)
        for thread in threading.enumerate()
    )


# Groups not told to end. No lock, which a finalizer could not take: adding, discarding and
# copying are single atomic operations of a built-in set whose elements hash by identity.
_live: set[ThreadGroup] = set()
_begun = False  # goes from False to True once, in the first step
_closed = False  # goes from False to True once, in the second step


def _end_first() -> None:
    global _begun
    _begun = True
    _end([pool for pool in list(_live) if not pool.outlives_main_thread()])


def _end_last() -> None:
    global _closed
    _closed = True
    _end(list(_live))


def _end(pools: list[ThreadGroup]) -> None:
    """Stop the thread groups *pools*. Wait for their threads,
    and for workers of groups stopped before.
    """
    for pool in pools:
        pool.stop()
    ending = _ending_workers()
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
    except Exception as error:
        # the warning itself, where warnings are errors: nothing must stop the exit
        with contextlib.suppress(Exception):  # stderr may be closed
            sys.stderr.write(f"{type(error).__name__}: {error}\n")


def _ending_workers() -> list[WorkerThread]:
    """Return the workers of groups that were stopped, without those named in a warning before."""
    going_on = {thread for pool in list(_live) for thread in pool.threads}
    workers = [thread for thread in threading.enumerate() if isinstance(thread, WorkerThread)]
    return [thread for thread in workers if thread not in going_on and not thread.abandoned]


class _EndOfThread:
    """Thread-local object that stops thread groups when a forked child's first thread ends.

    No exit hook runs in that case.
    """

    def __del__(self) -> None:
        for pool in list(_live or ()):  # None when modules have been torn down
            if not pool.outlives_main_thread():
                pool.dropped()


_local = threading.local()


def _forget_in_child() -> None:
    """Forget the parent's threads in a forked child, where only the thread that forked exists."""
    global _live, _begun, _closed, _local
    _live, _begun, _closed = set(), False, False
    _local = threading.local()
    _local.end = _EndOfThread()


def _register_last_step(_: object = None) -> None:
    atexit.register(_end_last)


threading._register_atexit(_end_first)  # type: ignore[attr-defined]  # not public
_register_last_step()
# A child of multiprocessing forgets the functions that its parent registered.
multiprocessing.util.register_after_fork(_register_last_step, _register_last_step)
fork.call_in_child(_forget_in_child)
