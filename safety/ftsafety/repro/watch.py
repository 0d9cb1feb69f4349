"""One process tree, watched until it ends, breaks a limit, takes too long, or is no longer wanted.

What is watched is somebody else's script, so nothing is left to its good will: its output is read and
mostly dropped, its children are found wherever they went, and SIGKILL has the last word. One event loop over
the pipes, the process's pidfd and the descriptors that the caller watches. The kernel reports neither the
memory nor the number of a tree's processes as events, so the loop also wakes a few times a second to look.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ftrun import process_tree
from ftrun.child_process import Stopped
from ftsafety.repro.limits import MIB, Limits
from ftsafety.repro.runner import DUMP_SIGNAL

KEPT = 64 * 1024  # bytes of each stream, at its beginning and again at its end
LOOK_SECONDS = 0.25
# For the dump of all stacks: so long for its first byte, so long without another one, and so long for all of it.
DUMP_SECONDS = 3.0
DUMP_PAUSE_SECONDS = 0.5
DUMP_MOST_SECONDS = 5.0
# Between SIGTERM and SIGKILL.
GRACE_SECONDS = 2.0
MOST_FILES = 100_000


@dataclass
class Stream:
    """What came out of a pipe: its beginning, its end, and how much there was."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = KEPT - len(self.head)
        self.head += data[:room]
        self.tail += data[max(room, 0) :]
        if len(self.tail) > 2 * KEPT:
            del self.tail[:-KEPT]

    def text(self) -> bytes:
        """The bytes that were kept, with a note where some were dropped."""
        tail = bytes(self.tail[-KEPT:])
        dropped = self.total - len(self.head) - len(tail)
        note = f"\n[... {dropped} bytes left out ...]\n".encode() if dropped else b""
        return bytes(self.head) + note + tail


@dataclass
class Ended:
    """How a process tree ended."""

    returncode: int
    seconds: float
    stdout: Stream
    stderr: Stream
    stacks: Stream
    status: Stream
    timed_out: bool = False
    limit: str | None = None
    """The limit that it broke, in words."""
    ignored_sigterm: bool = False
    left_behind: int = 0
    """Processes that still ran when the first one had ended."""
    unkillable: int = 0


def watch(
    command: Callable[[int, int], list[str]],
    environment: Mapping[str, str],
    directory: Path,
    scratch: Path,
    limits: Limits,
    others: Mapping[int, Callable[[], bool]],
    user: int | None = None,
) -> Ended:
    """Run `command(status_fd, stacks_fd)` in `directory` and return how it ended; nothing of it is left.

    The calling process becomes the reaper of its orphans. It must have one thread, and no children that
    have children of their own while this runs.

    Args:
        scratch: the folder whose size is limited.
        others: descriptors with a callback each; one that returns True ends the run.
        user: the user and group id that it runs under, without other groups; this process's own by default.

    Raises:
        ftrun.child_process.Stopped: a callback asked for the end.
        OSError: the command cannot be started.
    """
    process_tree.become_reaper()
    spared = frozenset(process_tree.children(os.getpid()))
    status_reader, status_writer = os.pipe()
    stacks_reader, stacks_writer = os.pipe()
    begin = time.monotonic()
    try:
        try:
            child = subprocess.Popen(
                command(status_writer, stacks_writer),
                env=dict(environment),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
                pass_fds=(status_writer, stacks_writer),
                user=user,
                group=user,
                extra_groups=None if user is None else [],
            )
        finally:
            os.close(status_writer)
            os.close(stacks_writer)
        with child.stdout, child.stderr:  # type: ignore[union-attr]  # both are PIPE
            watched = _Watched(child, spared, scratch, limits, others, begin, status_reader, stacks_reader)
            try:
                return watched.until_the_end()
            finally:
                process_tree.end_all(spared, child.pid)
                child.wait()
    finally:
        os.close(status_reader)
        os.close(stacks_reader)


class _Watched:
    """One child under watch. Owned by the one thread that runs it."""

    def __init__(self, child, spared, scratch, limits, others, begin, status, stacks) -> None:
        self._child, self._spared, self._scratch, self._limits = child, spared, scratch, limits
        self._others, self._begin = others, begin
        self._streams = {
            child.stdout.fileno(): Stream(),
            child.stderr.fileno(): Stream(),
            stacks: Stream(),
            status: Stream(),
        }
        self._stacks = stacks
        self._selector = selectors.DefaultSelector()
        self._ended = False
        self._pidfd = os.pidfd_open(child.pid)
        stdout, stderr, stack, told = self._streams.values()
        self.result = Ended(0, 0.0, stdout, stderr, stack, told)

    def until_the_end(self) -> Ended:
        with self._selector as selector:
            try:
                for fd in (*self._streams, self._pidfd, *self._others):
                    selector.register(fd, selectors.EVENT_READ)
                self._run()
                result = self.result
                result.seconds = time.monotonic() - self._begin
                if self._ended and not result.limit:
                    result.left_behind = sum(
                        not process_tree.dead(pid) for pid in process_tree.below(os.getpid(), self._spared, 1000)
                    )
                result.unkillable = process_tree.end_all(self._spared, self._child.pid)
                self._drain()
            finally:
                os.close(self._pidfd)
        result.returncode = self._child.wait() if not result.unkillable else -signal.SIGKILL
        return result

    def _run(self) -> None:
        deadline = self._begin + self._limits.timeout
        while not self._ended and time.monotonic() < deadline and not self.result.limit:
            self._wait(min(LOOK_SECONDS, deadline - time.monotonic()))
            self._look()
        if self._ended or self.result.limit:
            return
        self.result.timed_out = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._child.pid, DUMP_SIGNAL)
        self._await_dump()
        if not self._ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGTERM)
            end = time.monotonic() + GRACE_SECONDS
            while not self._ended and time.monotonic() < end and not self.result.limit:
                self._wait(min(LOOK_SECONDS, end - time.monotonic()))
                self._look()
            self.result.ignored_sigterm = not self._ended

    def _await_dump(self) -> None:
        stacks = self._streams[self._stacks]
        before, begin = stacks.total, time.monotonic()
        end = begin + DUMP_SECONDS
        while not self._ended and time.monotonic() < end and not self.result.limit:
            self._wait(min(LOOK_SECONDS, end - time.monotonic()))
            self._look()
            if stacks.total > before:
                end = min(time.monotonic() + DUMP_PAUSE_SECONDS, begin + DUMP_MOST_SECONDS)
                before = stacks.total

    def _wait(self, seconds: float) -> None:
        """One turn of the event loop."""
        for key, _ in self._selector.select(max(0.0, seconds)):
            fd = key.fd
            if fd in self._streams:
                data = os.read(fd, 1 << 16)
                self._streams[fd].add(data)
                if not data:
                    self._selector.unregister(fd)
            elif fd == self._pidfd:
                self._selector.unregister(fd)
                self._ended = True
            elif self._others[fd]():
                raise Stopped

    def _look(self) -> None:
        """Whether a limit of the whole tree is broken."""
        limits, result = self._limits, self.result
        written = result.stdout.total + result.stderr.total
        if written > limits.output:
            result.limit = f"printed more than {limits.output // MIB} MiB"
            return
        now = time.monotonic()
        if now < getattr(self, "_next_look", 0.0):
            return
        self._next_look = now + LOOK_SECONDS
        processes = process_tree.below(os.getpid(), self._spared, limits.processes + 1)
        if len(processes) > limits.processes:
            result.limit = f"had more than {limits.processes} processes at once"
        elif sum(map(process_tree.resident, processes)) > limits.memory:
            result.limit = f"used more than {limits.memory // MIB} MiB of memory"
        elif _size(self._scratch, limits.disk) > limits.disk:
            result.limit = f"wrote more than {limits.disk // MIB} MiB into its scratch folder"

    def _drain(self) -> None:
        """What is still in the pipes; nobody can write to them any more."""
        for fd, stream in self._streams.items():
            os.set_blocking(fd, False)
            # A process that could not be killed might go on writing.
            for _ in range(1000):
                try:
                    data = os.read(fd, 1 << 16)
                except BlockingIOError:
                    break
                if not data:
                    break
                stream.add(data)


def _size(directory: Path, enough: int) -> int:
    """Bytes that a folder takes on disk; stops counting at `enough`, or at too many files for anybody."""
    total = files = 0
    waiting = [str(directory)]
    while waiting and total <= enough:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    files += 1
                    with contextlib.suppress(OSError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    if files > MOST_FILES:
                        return enough + 1
        except OSError:
            continue  # gone, or made unreadable
    return total
