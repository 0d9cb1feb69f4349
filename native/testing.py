"""`./twins test`: the checks and several runs of pytest, two side by side, each shown whole when it has ended."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from .build import CHECKOUT, Twin
from .environment import environment
from .progress import clock

# Most of the tests' time is other processes' time, or waiting; more side by side would disturb each other.
SIDE_BY_SIDE = 2
NOTHING_SELECTED = 5  # pytest's exit status


@dataclass(frozen=True)
class TestRun:
    """One run: a title, a command, and the environment variables it runs under."""

    title: str
    command: list[str]
    environment: dict[str, str]


def pytest(
    title: str, twin: Twin, folders: list[str], arguments: list[str], variables: dict[str, str] | None = None
) -> TestRun:
    """A run of pytest in a twin over folders of tests/."""
    paths = [str(CHECKOUT / "tests" / folder) for folder in folders]
    command = [str(twin.python), "-m", "pytest", *paths, *arguments]
    return TestRun(title, command, {**environment(twin), **(variables or {})})


class _Runner:
    """Owns the processes that run, under one lock, so that an interruption reaches all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen] = []
        self._stopping = False

    def run(self, test_run: TestRun) -> tuple[int, str, float]:
        """(exit status, output, seconds) of one run."""
        begin = time.monotonic()
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            with self._lock:
                if self._stopping:
                    return 130, "", 0.0
                print(f"== {test_run.title}: started", flush=True)
                process = subprocess.Popen(
                    test_run.command,
                    cwd=CHECKOUT,
                    env=test_run.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
                self._processes.append(process)
            code = process.wait()
            output.seek(0)
            return code, output.read(), time.monotonic() - begin

    def stop(self) -> None:
        """Ctrl-C for every run: pytest ends its test, cleans up after it and reports."""
        with self._lock:
            self._stopping = True
            for process in self._processes:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)


def run_tests(runs: list[TestRun], selection: bool) -> int:
    """Runs all of `runs`; returns the exit status, 0 if all passed.

    Args:
        selection: whether pytest was given arguments, which may leave some runs nothing to do.
    """
    runner = _Runner()
    failed = []
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        futures = {pool.submit(runner.run, test_run): test_run for test_run in runs}
        try:
            for future in as_completed(futures):
                code, output, seconds = future.result()
                title = futures[future].title
                passed = code == 0 or (code == NOTHING_SELECTED and selection)
                print(f"\n== {title}: {'passed' if passed else 'FAILED'} in {clock(seconds)}\n{output}", flush=True)
                if not passed:
                    failed.append(title)
        except KeyboardInterrupt:
            runner.stop()
            raise
    print(f"== {len(runs) - len(failed)} of {len(runs)} runs passed")
    for title in failed:
        print(f"   failed: {title}", file=sys.stderr)
    return 1 if failed else 0
