"""An event loop over file descriptors, used to wait for child processes, clients and servers."""

from __future__ import annotations

import functools
import selectors
import time
from collections.abc import Callable, Mapping

from ftrun.errors import Stopped

# File descriptors and their callbacks. A callback that returns True asks
# to stop what the loop waits for.
Watch = Mapping[int, Callable[[], bool]]
# The kernel reports neither the memory nor the number of a process's children as events.
LOOK_SECONDS = 0.25


class Loop:
    """Event loop and context manager: calls the handler of each file descriptor that is ready.
    Owned by one thread.
    """

    def __init__(self, watch: Watch):
        self._selector = selectors.DefaultSelector()
        for fd, callback in watch.items():
            self.add(fd, functools.partial(self._check, callback))

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()

    def add(self, fd: int, handler: Callable[[], None], events: int = selectors.EVENT_READ) -> None:
        """Register `handler`: `run` then calls it whenever the
        file descriptor `fd` is ready for `events`.
        """
        self._selector.register(fd, events, handler)

    def remove(self, fd: int) -> None:
        """Remove the handler of the file descriptor `fd`."""
        self._selector.unregister(fd)

    def run(
        self,
        done: Callable[[], bool],
        until: float | None = None,
        look: Callable[[], None] | None = None,
    ) -> bool:
        """Call handlers until `done()` is true, then return True. Return False once
        time.monotonic() reaches `until`.

        `look` is called at least every LOOK_SECONDS. Raises Stopped if a callback of this loop's
        watch returns True.
        """
        while not done():
            # Checked while events arrive too: a writer
            # that never pauses must not exceed the time limit.
            if until is not None and time.monotonic() >= until:
                return False
            self._handle(until, LOOK_SECONDS if look else None)
            if look is not None:
                look()
        return True

    def _handle(self, until: float | None, most: float | None) -> None:
        """Wait for events until time.monotonic() reaches `until`,
        but at most `most` seconds; call their handlers.
        """
        left = most
        if until is not None:
            left = max(0.0, until - time.monotonic())
            if most is not None:
                left = min(left, most)
        for key, _ in self._selector.select(left):
            key.data()

    @staticmethod
    def _check(callback: Callable[[], bool]) -> None:
        if callback():
            raise Stopped
