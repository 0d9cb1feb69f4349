"""`./twins test`: several runs of pytest, two side by side, each shown whole when it has ended."""

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
    """One run of pytest: in which twin, over which folders of tests/, under which variables."""

    title: str
    twin: Twin
    folders: list[str]
    variables: dict[str, str]
    options: tuple[str, ...] = ()
    """More arguments of pytest, for this run alone."""


class _Runner:
    """Owns the processes that run, under one lock, so that an interruption reaches all of them."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen] = []
        self._stopping = False

    def run(self, test_run: TestRun) -> tuple:
        """(exit status, output, seconds) of one run."""
        begin = time.monotonic()
        command = [
            str(test_run.twin.python),
            "-m",
            "pytest",
            *(str(CHECKOUT / "tests" / folder) for folder in test_run.folders),
            *test_run.options,
            *self._arguments,
        ]
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            with self._lock:
                if self._stopping:
                    return 130, "", 0.0
                print(f"== {test_run.title}: started", flush=True)
                process = subprocess.Popen(
                    command,
                    cwd=CHECKOUT,
                    env={**environment(test_run.twin), **test_run.variables},
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


def run_tests(runs: list[TestRun], arguments: list[str]) -> int:
    """Runs all of `runs` with pytest's `arguments`; returns the exit status, 0 if all passed."""
    runner = _Runner(arguments)
    failed = []
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        futures = {pool.submit(runner.run, test_run): test_run for test_run in runs}
        try:
            for future in as_completed(futures):
                code, output, seconds = future.result()
                title = futures[future].title
                # A selection (-k ...) may leave nothing to do in some runs.
                passed = code == 0 or (code == NOTHING_SELECTED and arguments)
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
