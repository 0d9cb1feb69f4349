"""Child processes with time limits: run a child to its end, or exchange lines with it.

A child gets its own session and process group. The group is killed when the child ends, fails,
takes too long or is no longer needed, so that processes that the child started (torch's workers)
end too. With the argument ``tree``, descendants that left the group are also killed. Such children
are ftbench's trials, the audit and scripts of repro.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ftrun import process_tree
from ftrun.errors import Stopped, TimedOut
from ftrun.loop import Loop, Watch
from ftrun.parent_death import die_with_parent

# How long to go on reading after the child was killed, if another process holds a pipe open.
DRAIN_SECONDS = 1.0
# For a dump of all stacks: until its first byte, for a pause within it, and in all.
DUMP_SECONDS, DUMP_PAUSE_SECONDS, DUMP_MOST_SECONDS = 3.0, 0.5, 5.0

__all__ = ["Child", "Completed", "Stream", "Watch", "signal_name", "supervise"]


@dataclass(frozen=True)
class Completed:
    """Exit status, output and duration of an ended child."""

    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float


@dataclass
class Stream:
    """Bytes read from a pipe: all of them or, if `keep` is set,
    those at the start and at the end.
    """

    keep: int | None = None
    """Number of bytes to keep at the start, and also at the end. None: all bytes are kept."""
    take: Callable[[bytes], None] | None = None
    """If set, this function is called with all bytes as they arrive, and none are kept."""
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def add(self, data: bytes) -> None:
        """Pass `data`, which was read from the pipe,
        to the function `take`; if `take` is None, keep it.
        """
        self.total += len(data)
        if self.take is not None:
            self.take(data)
        elif self.keep is None:
            self.head += data
        else:
            room = self.keep - len(self.head)
            self.head += data[:room]
            self.tail += data[max(room, 0) :]
            if len(self.tail) > 2 * self.keep:
                del self.tail[: -self.keep]

    def text(self) -> bytes:
        """Return the kept bytes, with a note in place of dropped bytes."""
        tail = b""
        if self.keep:
            tail = bytes(self.tail[-self.keep :])
        dropped = self.total - len(self.head) - len(tail)
        note = ""
        if dropped:
            note = f"\n[... {dropped} bytes left out ...]\n"
        return bytes(self.head) + note.encode() + tail


def signal_name(number: int) -> str:
    """Return a signal's name, such as "SIGSEGV", or "signal 60" if it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def supervise(
    arguments: list[str],
    stdin: bytes,
    environment: Mapping[str, str],
    watch: Watch,
    timeout: float,
    take: Callable[[bytes], None] | None = None,
) -> Completed:
    """Run a command to its end, with the input `stdin`. If `take` is given, stdout is passed to it
    and not kept.

    Raises OSError if the command cannot be started. Kills the child and raises an exception in
    three cases: Stopped, if a callback of `watch` returns True; TimedOut, after `timeout` seconds;
    the error of `take`, if `take` raises one.
    """
    with contextlib.closing(Child(arguments, environment)) as child:
        child.stdout.take = take
        return child.finish(stdin, watch, timeout)


class Child:
    """A child process, owned by one thread, which must call `close`.
    Output is read only while a method waits.
    """

    def __init__(
        self,
        arguments: list[str] | Callable[..., list[str]],
        environment: Mapping[str, str],
        pipes: int = 0,
        keep: int | None = None,
        tree: bool = False,
        **options: Any,
    ):
        """Start the child; raises OSError.

        Args:
            arguments: the command, or a function that gets the descriptors of the `pipes` and
                returns the command.
            pipes: number of pipes, in addition to stdout and stderr, that the child can write to.
            keep: number of bytes to keep at each end of the child's output streams (`Stream.keep`).
            tree: also kill descendants outside of the child's process group. This process must then
                have a single thread, and no grandchildren from other children.
            options: other arguments of subprocess.Popen, such as cwd, user and stdin, stdout,
                stderr (default: pipes).
        """
        self.started = time.monotonic()
        self.ended_at: float | None = None
        self.left_behind = 0
        """With `tree`: number of descendants that still ran when the child ended."""
        self.unkillable = 0
        """Number of processes that survived SIGKILL, since they hang in the kernel."""
        self.usage: resource.struct_rusage | None = None
        """What the child and the descendants that it waited for used; None before its end."""
        self._unsent, self._last = memoryview(b""), False
        self._excluded: frozenset[int] | None = None  # not to be killed
        if tree:
            process_tree.become_reaper()
            self._excluded = frozenset(process_tree.children(os.getpid()))
            options["preexec_fn"] = functools.partial(die_with_parent, os.getpid())
        with contextlib.ExitStack() as stack:
            ends = [os.pipe() for _ in range(pipes)]
            for reader, _ in ends:
                stack.callback(os.close, reader)
            self._process = self._start(
                arguments, environment, [writer for _, writer in ends], options
            )
            stack.enter_context(self._process)  # closes the pipes and waits for the child's end
            stack.callback(self.kill)
            self._pidfd = os.pidfd_open(self._process.pid)
            stack.callback(os.close, self._pidfd)
            self._resources = stack.pop_all()
        self.stdout, self.stderr = Stream(keep), Stream(keep)
        self.pipes = [Stream(keep) for _ in ends]
        self._open: dict[int, Stream] = {}
        for (reader, _), stream in zip(ends, self.pipes):
            self._open[reader] = stream
        self._open_standard_streams()

    def _open_standard_streams(self) -> None:
        for pipe, stream in (
            (self._process.stdout, self.stdout),
            (self._process.stderr, self.stderr),
        ):
            if pipe:
                self._open[pipe.fileno()] = stream
        if self._process.stdin:
            os.set_blocking(self._process.stdin.fileno(), False)

    @staticmethod
    def _start(
        arguments: list[str] | Callable[..., list[str]],
        environment: Mapping[str, str],
        writers: list[int],
        options: Mapping[str, Any],
    ) -> subprocess.Popen:
        """Start the process; close this process's copies
        of the pipes' ends that the child writes to.
        """
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        try:
            return subprocess.Popen(
                arguments(*writers) if callable(arguments) else arguments,
                env=dict(environment),
                start_new_session=True,
                bufsize=0,
                pass_fds=writers,
                **{**pipes, **options},
            )
        finally:
            for writer in writers:
                os.close(writer)

    @property
    def returncode(self) -> int:
        """Exit status, or minus the number of the signal that ended the child. Valid after the
        child's end or kill.
        """
        if self.ended_at is None:
            return -signal.SIGKILL
        return self._process.wait()

    @property
    def seconds(self) -> float:
        """Seconds from the child's start to its end, or until now."""
        return (self.ended_at or time.monotonic()) - self.started

    def ask(self, line: bytes, watch: Watch, timeout: float) -> bytes | None:
        """Send a line, and return the next line that the child writes to stdout; None if the child
        ends before that.

        Raises Stopped or TimedOut, after killing the child.
        """
        self._send(line, watch, timeout, lambda: b"\n" in self.stdout.head)
        answer, end, rest = self.stdout.head.partition(b"\n")
        if not end:
            return None
        self.stdout.head[:] = rest
        return bytes(answer)

    def finish(self, stdin: bytes, watch: Watch, timeout: float) -> Completed:
        """Send `stdin` as the child's last input, close the pipe, and wait for the child's end.

        Raises Stopped or TimedOut, after killing the child.
        """
        self._last = True
        self._send(stdin, watch, timeout, lambda: False)
        stdout = bytes(self.stdout.head)
        stderr = bytes(self.stderr.head)
        return Completed(self.returncode, stdout, stderr, self.seconds)

    def listen(
        self,
        watch: Watch,
        seconds: float,
        done: Callable[[], bool] = lambda: False,
        look: Callable[[], None] | None = None,
    ) -> bool:
        """Read the child's output until `done()` is true or the child ends; return False if
        `seconds` pass first.

        When the child ends, processes that it left behind are killed and the rest of its output is
        read. `look` is called a few times a second, and may raise to end the wait. If a callback of
        `watch` returns True, this method kills the child and raises Stopped.
        """
        until = time.monotonic() + seconds
        with Loop(watch) as loop:
            self._add_pipes(loop)
            try:
                if not loop.run(lambda: self.ended_at is not None or done(), until, look):
                    return False
                if self.ended_at is not None:
                    loop.run(lambda: not self._open or done(), self.ended_at + DRAIN_SECONDS)
            except Stopped:
                self.kill()
                raise
        return True

    def _add_pipes(self, loop: Loop) -> None:
        for fd in self._open:
            handler = functools.partial(self._read, loop, fd)
            loop.add(fd, handler)
        if self.ended_at is None:
            handler = functools.partial(self._on_end, loop)
            loop.add(self._pidfd, handler)
        stdin = self._process.stdin
        if stdin and not stdin.closed and (self._unsent or self._last):
            handler = functools.partial(self._write, loop)
            loop.add(stdin.fileno(), handler, selectors.EVENT_WRITE)

    def read_stacks(
        self, number: int, stacks: Stream, watch: Watch, look: Callable[[], None] | None = None
    ) -> bool:
        """Send signal `number`, at which the child dumps its stacks,
        and read until the dump in `stacks`, a stream of the child, stops growing.

        Returns True if the child has ended.
        """
        self.signal(number)
        until = time.monotonic() + DUMP_MOST_SECONDS
        pause, before = DUMP_SECONDS, stacks.total
        while self.ended_at is None and (left := until - time.monotonic()) > 0:
            self.listen(
                watch,
                min(pause, left),
                functools.partial(lambda total: stacks.total > total, before),
                look,
            )
            if stacks.total == before:
                break
            pause, before = DUMP_PAUSE_SECONDS, stacks.total
        return self.ended_at is not None

    def descendants(self, most: int) -> list[int]:
        """Return the ids of the child and its descendants;
        stop after finding `most` or more ids. Needs `tree`.
        """
        excluded = self._excluded or frozenset()
        return process_tree.below(os.getpid(), excluded, most)

    def signal(self, number: int, group: bool = False) -> None:
        """Send signal `number` to the child or, with `group`, to the child's process group."""
        if self.ended_at is None:
            with contextlib.suppress(ProcessLookupError):
                if group:
                    os.killpg(self._process.pid, number)
                else:
                    os.kill(self._process.pid, number)

    def kill(self) -> None:
        """Kill the child and its process group; with `tree`,
        also all other descendants of the child.
        """
        # Not after wait(): another process may then have the child's id, which is also its group's.
        if self._process.returncode is None:
            if self._excluded is not None:
                self.unkillable = process_tree.end_all(self._excluded, self._process.pid)
            else:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kill the child as `kill` does, wait for its end and close its pipes.
        A second call does nothing.
        """
        self._resources.close()

    def _send(self, data: bytes, watch: Watch, timeout: float, done: Callable[[], bool]) -> None:
        self._unsent = memoryview(data)
        if not self.listen(watch, timeout, done):
            self.kill()
            raise TimedOut(timeout, bytes(self.stderr.head))

    def _read(self, loop: Loop, fd: int) -> None:
        data = os.read(fd, 1 << 16)
        self._open[fd].add(data)
        if not data:
            loop.remove(fd)
            del self._open[fd]

    def _write(self, loop: Loop) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            written = os.write(stdin.fileno(), self._unsent)
            self._unsent = self._unsent[written:]
        except BrokenPipeError:
            self._unsent = self._unsent[:0]  # the child has ended early; its status says why
        if not self._unsent:
            loop.remove(stdin.fileno())
            if self._last:
                stdin.close()

    def _on_end(self, loop: Loop) -> None:
        self.ended_at = time.monotonic()
        loop.remove(self._pidfd)
        if self._excluded is not None:
            living = [pid for pid in self.descendants(1000) if not process_tree.dead(pid)]
            self.left_behind = len(living)
        # What the child left behind would hold its pipes open.
        self.kill()
        # In place of Popen.wait, which does not tell what the child used.
        _, status, self.usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
