"""torch's map of worker processes, with a lock.

torch keeps its worker processes in a C++ map without a lock. Without the GIL, two threads that
start or end iterators at the same time, torch's own or ours, crash the interpreter. The functions
of this module hold a lock around every access; ``compat.patch`` puts them in place of torch's.
"""

import contextlib
import multiprocessing.synchronize
import multiprocessing.util
import sys
import threading
from collections import deque

from ftloader import fork
from ftloader.compat.torch_private import signal_handling

_map_of_workers = fork.rlock()  # reentrant, since a signal handler looks into the map
_torchs_set, _torchs_remove = signal_handling._set_worker_pids, signal_handling._remove_worker_pids
_torchs_check = signal_handling._error_if_any_worker_fails
# Keys of iterators that have ended. A finalizer, which may take no lock, leaves them here. The next
# look into the map removes their workers first.
_ended: deque[int] = deque()
_TAKING_A_LOCK = {
    function.__code__
    for kind in (threading.Condition, multiprocessing.synchronize.SemLock)
    for function in (kind.__enter__, kind.__exit__)
}
_put_off: list[bool] = []
"""Not empty if a check of the workers was put off.
Used by the main thread only, where signals are handled.
"""


def error_if_any_worker_fails() -> None:
    """Raise an error if one of torch's workers has failed.
    torch calls this when the signal SIGCHLD arrives.

    If the signal interrupts code that takes a lock, the check is put off.

    Once the interpreter exits, check nothing: multiprocessing then terminates the remaining
    workers. A new worker that does not handle SIGTERM yet would look like a failed one, and the
    error would prevent joining the other workers.
    """
    if multiprocessing.util.is_exiting():
        return
    # An exception in ``Condition.__enter__`` leaves the condition locked for good (CPython issue
    # 74174). torch's own class would then wait forever for its queue when it ends the other
    # workers.
    interrupted = sys._getframe(1).f_back  # the frame that the signal interrupted
    if interrupted is not None and interrupted.f_code in _TAKING_A_LOCK:
        _put_off.append(True)
        return
    _check()


def check_if_put_off() -> None:
    """Make a check that was put off; raise an error if a worker has failed. For the main thread."""
    if _put_off:
        _put_off.clear()
        if not multiprocessing.util.is_exiting():
            _check()


def set_worker_pids(key: int, pids: tuple[int, ...]) -> None:
    """Enter the processes of an iterator, whose key is *key*."""
    with _map_of_workers:
        _remove_ended()  # one may have had the same key
        _torchs_set(key, pids)


remove_later = _ended.append
"""Note that the iterator with this key has ended. Takes no lock: finalizers call it."""


def _check() -> None:
    with _map_of_workers:
        _remove_ended()
        _torchs_check()


def _remove_ended() -> None:
    """Remove the workers of ended iterators from torch's map. The caller must hold the lock."""
    with contextlib.suppress(IndexError):
        # no more, maybe since a signal handler has taken the last one
        while True:
            _torchs_remove(_ended.popleft())
