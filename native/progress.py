"""Display of a build's progress: the running steps, how long each has run, and where its log is.

On a terminal, the running steps are redrawn every second. Elsewhere, a line is printed when a step
starts, when it ends, and every half minute while it runs.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from . import TwinsError

HEARTBEAT_S = 30.0


def clock(seconds: float) -> str:
    """Return `seconds` as minutes and seconds, such as "2:05"."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Progress:
    """Runner of a build's steps as processes, and display of their progress. Several threads may
    call `run` at once.

    One lock guards all state: the running steps, their processes, and whether `stop` was called.
    """

    def __init__(self, logs: Path, total: int, stream=None) -> None:
        self._lock = threading.Lock()
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._logs = logs
        self._total = total
        self._started = 0
        self._running: dict[str, float] = {}  # step -> start time, in order of start
        self._processes: dict[str, subprocess.Popen] = {}
        self._drawn = 0
        self._stopping = False
        self._end = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="progress")

    def __enter__(self) -> Progress:
        self._logs.mkdir(parents=True, exist_ok=True)
        self._ticker.start()
        return self

    def __exit__(self, *exception) -> None:
        self.stop()
        self._end.set()
        self._ticker.join()
        with self._lock:
            self._erase()

    def run(
        self, step: str, command: Sequence, lock_descriptor: int, env: dict | None = None
    ) -> None:
        """Run `command` to its end, as the build step called `step`; write its output to that
        step's log file.

        Raises TwinsError if the command fails (the message has the log's last lines),
        or if `stop` was called.
        """
        log = self._log(step)
        with self._lock:
            number, process = self._start(step, command, lock_descriptor, env)
            begin = self._running[step]
        code = process.wait()
        with self._lock:
            del self._processes[step], self._running[step]
            stopped = self._stopping
            if not stopped:
                outcome = "done" if code == 0 else "FAILED"
                self._print(
                    f"[{number}/{self._total}] {step}: {outcome} in "
                    f"{clock(time.monotonic() - begin)}"
                )
            self._draw()
        if stopped:
            raise TwinsError("stopped")
        if code:
            with open(log, errors="replace") as lines:
                tail = "".join(deque(lines, maxlen=15)).rstrip()
            raise TwinsError(
                f"{step} failed (exit status {code}); the end of its log {log}:\n{tail}"
            )

    def stop(self) -> None:
        """Kill the processes of all running steps, with their child processes.
        No step can start afterwards.
        """
        with self._lock:
            self._stopping = True
            processes = list(self._processes.values())
        for process in processes:
            try:
                # SIGKILL is safe: the next build removes unfinished directories.
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def say(self, text: str) -> None:
        """Print a line above the running steps."""
        with self._lock:
            self._print(text)
            self._draw()

    def _log(self, step: str) -> Path:
        return self._logs / (step.replace(" ", "-") + ".log")

    def _tick(self) -> None:
        last = time.monotonic()
        while not self._end.wait(1.0):
            with self._lock:
                if self._terminal:
                    self._draw()
                elif time.monotonic() - last >= HEARTBEAT_S:
                    last = time.monotonic()
                    for step, begin in self._running.items():
                        self._print(f"    {step}: running for {clock(last - begin)}")

    # The methods below are called with the lock held.

    def _start(
        self, step: str, command: Sequence, lock_descriptor: int, env: dict | None
    ) -> tuple[int, subprocess.Popen]:
        """Start a step; return its number and its process.
        Raises TwinsError if `stop` was called.
        """
        if self._stopping:
            raise TwinsError("stopped")
        self._started += 1
        log = self._log(step)
        # In a session of its own, so that Ctrl-C reaches only this program,
        # which then ends the whole session.
        with open(log, "wb") as output:
            process = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=[lock_descriptor],
                env=env,
            )
        self._processes[step] = process
        self._running[step] = time.monotonic()
        if not self._terminal:
            self._print(f"[{self._started}/{self._total}] {step} (log: {log})")
        self._draw()
        return self._started, process

    def _print(self, text: str) -> None:
        self._erase()
        self._stream.write(text + "\n")
        self._stream.flush()

    def _erase(self) -> None:
        if self._drawn:
            self._stream.write(f"\x1b[{self._drawn}A\x1b[J")
            self._drawn = 0

    def _draw(self) -> None:
        if not self._terminal:
            return
        self._erase()
        width = shutil.get_terminal_size().columns - 1
        now = time.monotonic()
        for step, begin in self._running.items():
            self._stream.write(
                f"  {clock(now - begin):>6}  {step}  (log: {self._log(step)})"[:width] + "\n"
            )
            self._drawn += 1
        self._stream.flush()
