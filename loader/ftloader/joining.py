"""Worker threads as such: how the interpreter sees them, and waiting for them with a limit.

A worker that can end is waited for; one that user code holds up (a server that does not
answer, a lock that nobody releases) is named with its stack once ``JOIN_LIMIT`` is over,
and left behind. The interpreter itself knows only two ways to exit beside a running
thread: to wait for it without a limit (``daemon=False``), or not at all. So a worker is
handed over to it for the second, and ``ftloader.lifetime`` waits, with the limit.
"""

import contextlib
import faulthandler
import os
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator

JOIN_LIMIT = 5.0
"""Seconds to wait for workers that were told to end, the time torch grants its worker
processes. A worker only needs longer if a single sample does. Read at each wait."""


class WorkerThread(threading.Thread):
    """A thread for whose end ``ftloader.lifetime`` waits when the interpreter exits.

    ``daemon`` is False for all who ask: the exit waits for this thread (with a limit), and
    a thread that user code starts in it is no daemon thread. Only ``Thread.start``, which
    passes ``self.daemon`` on to the interpreter, is told True. The interpreter then keeps
    the thread off the list of those for which it waits without a limit, and what it does
    to a thread that is still running at its very end is what it does to daemon threads:
    it never lets it run Python code again.
    """

    pid = None
    """What asks for a worker's process must not find one: killing it would kill the program."""

    _being_started = False  # written by start(), and before it returns by the thread itself
    in_user_code = False
    """Written by the thread itself, in ``calling_user_code``; read by ``report_stuck``, which
    copes with a value that is a moment old."""

    @property
    def daemon(self) -> bool:  # type: ignore[override]  # nobody sets it
        return self._being_started

    def start(self) -> None:
        self._being_started = True
        try:
            super().start()
        finally:
            self._being_started = False

    def run(self) -> None:
        self._being_started = False  # before any user code: threads inherit it
        process = os.getpid()
        super().run()
        if os.getpid() != process:
            # User code forked here, and the child returned to us instead of ending itself.
            # This is its only thread of ours, so it ends now; by this call, since after the
            # end of a thread the C library would run the destructors of an interpreter and
            # of libraries (torch's may never return) that nobody has told that it is over.
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):  # None, or closed
                    stream.flush()
            os._exit(0)


@contextlib.contextmanager
def calling_user_code() -> Iterator[None]:
    """Within the block it is user code that holds the calling worker thread up."""
    thread: WorkerThread = threading.current_thread()  # type: ignore[assignment]  # only workers call this
    thread.in_user_code = True
    try:
        yield
    finally:
        thread.in_user_code = False


def may_wait() -> bool:
    """Whether the calling thread may wait for others, in a finalizer that can have hit it
    between any two steps.

    It may not inside the ``threading`` module, with the lock in hand that a thread needs for
    its first and last steps; nor before and after those steps of its own, when that module
    does not know the thread and would make a record of it that nobody removes.
    """
    # Neither name is public.
    lock = threading._active_limbo_lock  # type: ignore[attr-defined]
    return not lock._is_owned() and threading.get_ident() in threading._active  # type: ignore[attr-defined]


def join_all(threads: Iterable[threading.Thread], limit: float) -> list[threading.Thread]:
    """Waits for *threads* to end, up to *limit* seconds in all. Returns those that have not.

    The calling thread, which cannot wait for itself, and threads that have not been
    started are left out. An interruption (``KeyboardInterrupt``) ends the wait.
    """
    deadline = time.monotonic() + limit
    stuck = []
    for thread in threads:
        if thread.ident in (None, threading.get_ident()):
            continue
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            stuck.append(thread)
    return stuck


# The warning is shown at the user's line that closed or dropped an iterator.
_NOT_THE_USERS = (os.path.dirname(__file__) + os.sep, weakref.__file__)


def report_stuck(threads: list[threading.Thread], limit: float, consequence: str) -> None:
    """Names *threads*, which did not end within *limit* seconds, in a ``RuntimeWarning``
    with the stack of each and, in a sentence, the *consequence*."""
    # First, since the stacks take a moment; those are of the same moment or later.
    starved = [t.name for t in threads if not getattr(t, "in_user_code", False)]
    names = ", ".join(thread.name for thread in threads)
    call = "a call into the dataset, collate_fn or worker_init_fn"
    if not starved:
        reason = f"because {call} has not returned"
    elif len(starved) == len(threads):
        reason = f"although {call} is not what it waits for: the machine gives it no time to run"
    else:
        reason = (
            f"because {call} has not returned; but for {', '.join(starved)}, to which the machine gives no time to run"
        )
    warnings.warn(
        f"{names} did not end within {limit:.3g} s of being told to, {reason}. {consequence} "
        "Stack:\n" + _stacks(threads),
        RuntimeWarning,
        skip_file_prefixes=_NOT_THE_USERS,
    )


def report_abandoned(threads: list[threading.Thread], limit: float) -> None:
    """``report_stuck`` for the interpreter's exit, which nothing must stop: where warnings
    are errors, the report goes to stderr as it is."""
    try:
        report_stuck(threads, limit, "The interpreter exits without waiting any longer.")
    except Exception as error:  # with filter "error" the warning itself
        with contextlib.suppress(Exception):  # stderr may be closed
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            sys.stderr.flush()


def _stacks(threads: list[threading.Thread]) -> str:
    """The stacks of running threads as text.

    Through ``faulthandler``, which stops all threads while it reads (CPython issue
    128400); walking frames from ``sys._current_frames()`` while their thread goes on
    running is not safe without the GIL.
    """
    try:
        # A file, since faulthandler writes to a descriptor; it names 100 threads at most.
        with tempfile.TemporaryFile("w+", errors="replace") as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            sections = file.read().split("\n\n")
    except OSError as error:
        return f"(stacks not available: {error})\n"
    return "".join(_stack(thread, sections) for thread in threads)


def _stack(thread: threading.Thread, sections: list[str]) -> str:
    # With the system's id: it tells apart equally named workers of several loaders, also
    # for the warnings module, which shows equal texts once; and gdb and py-spy know it.
    title = f"{thread.name} (thread {thread.native_id}"
    for section in sections:
        header, _, frames = section.partition("\n")
        if f"0x{thread.ident:016x}" in header:
            return f"{title}, most recent call first):\n{_without_first_frames(frames)}\n"
    return f"{title}): (stack not available)\n"


def _without_first_frames(frames: str) -> str:
    """Without those before ``Thread.run`` calls our code, which are the same in every thread."""
    lines = frames.rstrip().splitlines()
    for position, line in enumerate(lines):
        if f'"{__file__}"' in line and line.endswith(" in run"):
            return "\n".join(lines[: position - 1])
    return "\n".join(lines)
