"""Handling of Ctrl-C, SIGTERM and the end of the terminal (SIGHUP)
at points where stopping is safe.

An exception from a signal handler can come between starting a child and recording that it runs. So
the handler only records the signal and makes `fileno()` readable. Code that waits for `fileno()`,
or calls `check()` in a loop, decides what to do. A second signal ends the process immediately.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

from ftrun.errors import Interrupted

Progress = Callable[[int, int], None]


class Interruption:
    """Context manager for the main thread: records SIGINT and SIGTERM, and SIGHUP unless the
    process ignores it.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.signum = 0
        """The signal that has arrived, or 0."""

    def __enter__(self) -> Interruption:
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._previous: dict[signal.Signals, Any] = {}
        for signum in self.SIGNALS:
            is_ignored = signal.getsignal(signum) is signal.SIG_IGN
            if signum != signal.SIGHUP or not is_ignored:
                self._previous[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        os.close(self._reader)
        os.close(self._writer)

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        if self.signum:
            os._exit(128 + signum)
        self.signum = signum
        os.write(self._writer, b"!")

    def fileno(self) -> int:
        """Return a descriptor that becomes, and stays, readable once a signal has arrived."""
        return self._reader

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`; raises Interrupted as soon as a signal arrives."""
        select.select([self._reader], [], [], seconds)
        self.check()

    def check(self) -> None:
        """Raise Interrupted if a signal has arrived."""
        if self.signum:
            raise Interrupted(self.signum)

    def checked(self, progress: Progress) -> Progress:
        """Return a function that calls `progress(done, total)`,
        or raises Interrupted once a signal has arrived.
        """

        def update(done: int, total: int) -> None:
            self.check()
            progress(done, total)

        return update

    def wanted(self) -> bool:
        """True if a signal has arrived. As the callback of a watch,
        this makes a signal end the wait.
        """
        return bool(self.signum)
