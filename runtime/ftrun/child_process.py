"""Child processes: run one to its end, or exchange lines with it, until something asks to stop it.

A child gets a session of its own, so that the processes it starts (torch's workers) end
with it: its process group is killed when the child ends, fails, takes too long or is no
longer needed. One event loop waits for the pipes, the child's pidfd and the file
descriptors that the caller watches; there are no threads and no polling.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# How long to go on reading after the child's group was killed, if another process holds a pipe open.
DRAIN_SECONDS = 1.0

# File descriptors and their callbacks. A callback that returns True asks to stop the child.
Watch = Mapping[int, Callable[[], bool]]


class Stopped(Exception):
    """A watched file descriptor's callback asked to stop the child; its process group has been killed."""


class TimedOut(Exception):
    """The child exceeded its time limit; its process group has been killed. `stderr` is what it wrote there."""

    def __init__(self, seconds: float, stderr: bytes):
        super().__init__(f"did not end within {seconds:.0f} s")
        self.stderr = stderr


@dataclass(frozen=True)
class Outcome:
    """How a child ended."""

    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float


def supervise(
    arguments: list[str],
    stdin: bytes,
    environment: Mapping[str, str],
    watch: Watch,
    timeout: float,
    take: Callable[[bytes], None] | None = None,
) -> Outcome:
    """Run a command with `stdin` and return its outcome.

    With `take`, the child's stdout is passed to it as it arrives, and not kept; an exception that it
    raises ends the child. Raises Stopped or TimedOut, after killing the child's process group, and
    OSError if the command cannot be started.
    """
    with contextlib.closing(Child(arguments, environment)) as child:
        return child.finish(stdin, watch, timeout, take)


class Child:
    """A child process; its creator must close it. Raises OSError if it cannot be started.

    Owned by one thread. What the child writes is read only during `ask` and `finish`; until then it stays in the pipes.
    """

    def __init__(self, arguments: list[str], environment: Mapping[str, str]):
        self._begin = time.monotonic()
        self._process = subprocess.Popen(
            arguments,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except BaseException:
            self._end()
            raise
        self._ended_at: float | None = None
        self._stdout, self._stderr = bytearray(), bytearray()
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin = self._process.stdin
        self._open = {self._process.stdout.fileno(): self._stdout, self._process.stderr.fileno(): self._stderr}
        os.set_blocking(self._stdin.fileno(), False)

    def ask(self, line: bytes, watch: Watch, timeout: float) -> bytes | None:
        """Send a line and return the next line of its stdout; None if it ends without one (`finish` says how).

        Raises Stopped or TimedOut, after killing the child's process group.
        """
        self._listen(line, watch, timeout, None, lambda: b"\n" in self._stdout)
        answer, found, rest = self._stdout.partition(b"\n")
        if not found:
            return None
        self._stdout[:] = rest
        return bytes(answer)

    def finish(
        self, stdin: bytes, watch: Watch, timeout: float, take: Callable[[bytes], None] | None = None
    ) -> Outcome:
        """Send the rest of its stdin, wait for its end and return its outcome, as `supervise` does."""
        self._listen(stdin, watch, timeout, take, lambda: False, last=True)
        self._process.wait()
        assert self._ended_at is not None
        return Outcome(self._process.returncode, bytes(self._stdout), bytes(self._stderr), self._ended_at - self._begin)

    def close(self) -> None:
        """Kill it and what it started, if they still run. A second call does nothing."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
            self._end()

    def _end(self) -> None:
        self._kill_group()
        with self._process:
            pass  # closes the pipes and waits for its end

    def _kill_group(self) -> None:
        # Only before wait(): after it, another process may get the child's id, which is also its group's.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _listen(
        self,
        send: bytes,
        watch: Watch,
        timeout: float,
        take: Callable[[bytes], None] | None,
        enough: Callable[[], bool],
        last: bool = False,
    ) -> None:
        """Send, and read until `enough()` or the child's end; with `last`, close its stdin once all is sent."""
        unsent = memoryview(send)
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for fd in (*self._open, *watch):
                selector.register(fd, selectors.EVENT_READ)
            if self._ended_at is None:
                selector.register(self._pidfd, selectors.EVENT_READ)
            else:
                deadline = min(deadline, time.monotonic() + DRAIN_SECONDS)
            if not self._stdin.closed:
                selector.register(self._stdin, selectors.EVENT_WRITE)
            while (self._open or self._ended_at is None) and not enough():
                events = selector.select(max(0.0, deadline - time.monotonic()))
                if not events and time.monotonic() >= deadline:
                    if self._ended_at is not None:
                        break
                    self._kill_group()
                    raise TimedOut(timeout, bytes(self._stderr))
                for key, _ in events:
                    fd = key.fd
                    if fd in self._open:
                        data = os.read(fd, 1 << 16)
                        if take is not None and self._open[fd] is self._stdout:
                            take(data)
                        else:
                            self._open[fd] += data
                        if not data:
                            selector.unregister(fd)
                            del self._open[fd]
                    elif fd == self._pidfd:
                        self._ended_at = time.monotonic()
                        deadline = self._ended_at + DRAIN_SECONDS
                        selector.unregister(fd)
                        # Processes that the child left behind would hold its pipes open.
                        self._kill_group()
                    elif key.fileobj is self._stdin:
                        try:
                            unsent = unsent[os.write(fd, unsent) :]
                        except BrokenPipeError:
                            unsent = unsent[:0]  # the child has ended early; its status says why
                        if not unsent:
                            selector.unregister(self._stdin)
                            if last:
                                self._stdin.close()
                    elif fd in watch and watch[fd]():
                        self._kill_group()
                        raise Stopped
