"""One child process, watched until it ends or something else asks for its end.

The child gets a session of its own, so that whatever it starts (torch's worker processes)
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
    arguments: list[str], stdin: bytes, environment: Mapping[str, str], watch: Watch, timeout: float,
    take: Callable[[bytes], None] | None = None,
) -> Outcome:
    """Run a command with `stdin` and return its outcome.

    `take` is given the child's stdout as it comes, which is then not kept; what it raises ends the child.
    Raises Stopped or TimedOut, after killing the child's process group, and OSError where the
    command cannot be started.
    """
    begin = time.monotonic()
    child = subprocess.Popen(
        arguments, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, start_new_session=True, bufsize=0)
    try:
        return _watch(child, stdin, watch, begin, timeout, take)
    finally:
        _kill_group(child)
        for pipe in (child.stdin, child.stdout, child.stderr):
            pipe.close()
        child.wait()


def _kill_group(child: subprocess.Popen) -> None:
    # Before wait(): until then the child's id, which is its group's, cannot be given away.
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)


def _watch(child: subprocess.Popen, stdin: bytes, watch: Watch, begin: float, timeout: float,
           take: Callable[[bytes], None] | None) -> Outcome:
    output = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    stderr = output[child.stderr.fileno()]
    stdin_fd = child.stdin.fileno()
    unsent = memoryview(stdin)
    deadline = begin + timeout
    ended_at = None
    pidfd = os.pidfd_open(child.pid)
    try:
        with selectors.DefaultSelector() as selector:
            for fd in (*output, pidfd, *watch):
                selector.register(fd, selectors.EVENT_READ)
            os.set_blocking(stdin_fd, False)
            selector.register(stdin_fd, selectors.EVENT_WRITE)
            open_pipes = set(output)
            while open_pipes or ended_at is None:
                events = selector.select(max(0.0, deadline - time.monotonic()))
                if not events and time.monotonic() >= deadline:
                    if ended_at is not None:
                        break
                    raise TimedOut(timeout, bytes(stderr))
                for key, _ in events:
                    fd = key.fd
                    if fd in output:
                        data = os.read(fd, 1 << 16)
                        if take is not None and fd == child.stdout.fileno():
                            take(data)
                        else:
                            output[fd] += data
                        if not data:
                            selector.unregister(fd)
                            open_pipes.discard(fd)
                    elif fd == pidfd:
                        ended_at = time.monotonic()
                        deadline = ended_at + DRAIN_SECONDS
                        selector.unregister(pidfd)
                        # What the child left behind would hold its pipes open.
                        _kill_group(child)
                    elif fd == stdin_fd:
                        try:
                            unsent = unsent[os.write(fd, unsent):]
                        except BrokenPipeError:
                            unsent = unsent[:0]  # it ends early; its status says why
                        if not unsent:
                            selector.unregister(fd)
                            child.stdin.close()
                    elif fd in watch and watch[fd]():
                        raise Stopped
    finally:
        os.close(pidfd)
    child.wait()
    return Outcome(child.returncode, bytes(output[child.stdout.fileno()]), bytes(stderr), ended_at - begin)
