"""Child processes: run to their end, or talked to line by line, until something else asks for their end.

A child gets a session of its own, so that whatever it starts (torch's worker processes)
ends with it: its process group is killed when the child ends, fails, takes too long or is
no longer wanted. One event loop over the pipes, the child's pidfd and the file descriptors
that the caller watches; no threads, no polling.
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

# How long to read on after the child's group was killed, should anything hold a pipe open.
DRAIN_SECONDS = 1.0

# A file descriptor's callback; True means that the child is no longer wanted.
Watch = Mapping[int, Callable[[], bool]]


class Stopped(Exception):
    """A watched file descriptor's callback asked for the end; the child's group is dead."""


class TimedOut(Exception):
    """The child took longer than it may; its group is dead. Holds what it wrote to stderr."""

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

    `take` is given the child's stdout as it comes, which is then not kept; what it raises ends the child.
    Raises Stopped or TimedOut, after killing the child's process group, and OSError where the
    command cannot be started.
    """
    with contextlib.closing(Child(arguments, environment)) as child:
        return child.finish(stdin, watch, timeout, take)


class Child:
    """A child process. Whoever made it has to close it; raises OSError if it cannot be started.

    Owned by one thread, which listens to it only while it waits for it: what the child writes meanwhile stays in
    the pipes.
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
        self._open = {self._process.stdout.fileno(): self._stdout, self._process.stderr.fileno(): self._stderr}
        os.set_blocking(self._process.stdin.fileno(), False)

    def ask(self, line: bytes, watch: Watch, timeout: float) -> bytes | None:
        """Send a line and return the next one of its stdout; None if it ends without (`finish` says how).

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
        return Outcome(self._process.returncode, bytes(self._stdout), bytes(self._stderr), self._ended_at - self._begin)

    def close(self) -> None:
        """Kill it and what it started, if they still run; a second time, nothing."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
            self._end()

    def _end(self) -> None:
        self._kill_group()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()
        self._process.wait()

    def _kill_group(self) -> None:
        # Before wait(): until then the child's id, which is its group's, cannot be given away.
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
        """Send, and read until there is enough or the child has ended; with `last`, close its stdin behind it."""
        stdin = self._process.stdin
        unsent = memoryview(send)
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for fd in (*self._open, *watch):
                selector.register(fd, selectors.EVENT_READ)
            if self._ended_at is None:
                selector.register(self._pidfd, selectors.EVENT_READ)
            else:
                deadline = min(deadline, time.monotonic() + DRAIN_SECONDS)
            if not stdin.closed:
                selector.register(stdin, selectors.EVENT_WRITE)
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
                        # What the child left behind would hold its pipes open.
                        self._kill_group()
                    elif key.fileobj is stdin:
                        try:
                            unsent = unsent[os.write(fd, unsent) :]
                        except BrokenPipeError:
                            unsent = unsent[:0]  # it ends early; its status says why
                        if not unsent:
                            selector.unregister(stdin)
                            if last:
                                stdin.close()
                    elif fd in watch and watch[fd]():
                        self._kill_group()
                        raise Stopped
