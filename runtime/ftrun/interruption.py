"""Ctrl-C and SIGTERM as something to look at, in the places where stopping is safe.

An exception from a signal handler can strike between starting a child and noting that it
runs. So the handler only notes the signal and wakes whoever waits on `fileno()`; the code
that waits, and `check()` in loops, decide what to do. A second signal ends the process at
once: by then no trial runs any more.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from types import FrameType


class Interrupted(Exception):
    """The user asked to stop."""

    def __init__(self, signum: int):
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def exit_status(self) -> int:
        """The shell's convention: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + self.signum


class Interruption:
    """Context manager that owns SIGINT and SIGTERM; for the main thread only."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.signum: int | None = None

    def __enter__(self) -> Interruption:
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._previous = {s: signal.signal(s, self._handle) for s in self.SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        os.close(self._reader)
        os.close(self._writer)

    def _handle(self, signum: int, _frame: FrameType | None) -> None:
        if self.signum is not None:
            os._exit(128 + signum)
        self.signum = signum
        os.write(self._writer, b"!")

    def fileno(self) -> int:
        """A descriptor that becomes, and stays, readable once a signal has arrived."""
        return self._reader

    def wait(self, seconds: float) -> None:
        """Wait so long, or until a signal arrives, which raises Interrupted."""
        select.select([self._reader], [], [], seconds)
        self.check()

    def check(self) -> None:
        """Raise Interrupted if a signal has arrived."""
        if self.signum is not None:
            raise Interrupted(self.signum)

    def checked(self, progress: Callable[[int, int], None]) -> Callable[[int, int], None]:
        """The progress callback (done, total), which raises Interrupted once a signal has arrived."""

        def update(done: int, total: int) -> None:
            self.check()
            progress(done, total)

        return update

    def wanted(self) -> bool:
        """Whether a signal has arrived; the callback form for supervise's watch."""
        return self.signum is not None
