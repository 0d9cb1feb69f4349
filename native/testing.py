"""`./twins test`: runs pre-commit and pytest commands, four at a time. Prints a command's output
once it has ended.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from typing import IO

from . import TwinsError, checks
from .build import CHECKOUT, TWINS, Twin, sigterm_as_ctrl_c
from .progress import clock

# More than the processors of a small machine, since many tests wait for processes or containers.
AT_A_TIME = 4
# pytest's usual options without a value
FLAGS = ("--quick", "--long", "-x", "-q", "-v", "-vv", "-s", "-l", "--lf", "--ff", "--pdb")
NOTHING_SELECTED = 5  # pytest's exit status
# seconds from an interruption to the end of the runs: longer than a teardown waits for anything
REPORTS_WITHIN = 150.0

OF_THE_LOADER = ["unit/loader", "conformance", "stress"]
OF_THE_BENCHMARK = ["unit/bench"]
PROGRAMS = ["unit/safety", "unit/runtime", "examples", "libraries"]
# Run by pytest-run-parallel without the GIL: tests that start many workers
# and change no process-wide state.
AT_ONCE = [
    "conformance/test_workers.py",
    "conformance/test_failures.py",
    "conformance/test_ownership.py",
]
FOUR_THREADS = ("--parallel-threads=4", "--iterations=1")


@dataclass
class TestRun:
    """One command of `./twins test`: its title, its environment variables and,
    once started, its process.
    """

    title: str
    command: list[str]
    environment: dict[str, str]
    process: subprocess.Popen | None = None
    started: float = 0.0
    output: IO[str] = field(default_factory=lambda: tempfile.TemporaryFile("w+", errors="replace"))

    def start(self) -> int:
        """Start the command in a new session, so that Ctrl-C reaches only ./twins;
        return the process id.
        """
        print(f"== {self.title}: started", flush=True)
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self.command,
            cwd=CHECKOUT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self.process.pid

    def finish(self, selection: bool, within: float | None = None) -> bool:
        """Wait for the command's end; print its output;
        return True if it passed. `selection`: see `run`.

        After an interruption: if it has not ended `within` these seconds, abort it, so that pytest
        says where it hangs.
        """
        assert self.process
        try:
            code = self.process.wait(within)
        except subprocess.TimeoutExpired:
            code = self._abort()
        passed = code == 0 or (code == NOTHING_SELECTED and selection)
        if passed:
            result = "passed"
        else:
            result = "FAILED" if within is None else "interrupted"
        seconds = time.monotonic() - self.started
        self.output.seek(0)
        print(f"\n== {self.title}: {result} in {clock(seconds)}\n{self.output.read()}", flush=True)
        return passed

    def _abort(self) -> int:
        """Kill the command, after pytest has said where it hangs; return its exit status."""
        assert self.process
        # pytest's faulthandler prints the tracebacks of all threads
        self.process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        return self.kill()

    def kill(self) -> int:
        """Kill the command and its process group; return its exit status."""
        assert self.process
        with contextlib.suppress(ProcessLookupError):  # nothing is left of it
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


def check(arguments: list[str]) -> None:
    """Raise TwinsError if one of pytest's `arguments` is a file or folder that does not exist."""
    before = ""
    for argument in arguments:
        # After an option with a space, it may be the option's value.
        may_be_value = before.startswith("-") and "=" not in before and before not in FLAGS
        missing = not (CHECKOUT / argument.partition("::")[0]).exists()
        if missing and not argument.startswith("-") and not may_be_value:
            raise TwinsError(
                f"there is no file or folder {argument}{_similar(argument)} "
                "(./twins test --help has examples)",
                2,
            )
        before = argument


def _similar(argument: str) -> str:
    names = [*TWINS, *(f"tests/{path.name}" for path in (CHECKOUT / "tests").iterdir())]
    close = difflib.get_close_matches(argument, names, n=1)
    return f": did you mean {close[0]!r}?" if close else ""


def chosen(twins: list[Twin], arguments: list[str]) -> list[TestRun]:
    """Return a run of pytest for each twin if any of pytest's `arguments` names a file or folder in
    tests/, else [].
    """
    paths = [(CHECKOUT / argument.partition("::")[0]).resolve() for argument in arguments]
    if not any(CHECKOUT / "tests" in path.parents and path.exists() for path in paths):
        return []
    return [_pytest(f"{twin.name}: {twin.label}", twin, [], arguments) for twin in twins]


def _pytest(
    title: str,
    twin: Twin,
    folders: list[str],
    arguments: list[str],
    variables: dict[str, str] | None = None,
) -> TestRun:
    """Describe, for `run`, a run of pytest by the Python of `twin`.
    `folders`: folders and files of tests/.
    """
    paths = [str(CHECKOUT / "tests" / folder) for folder in folders]
    command = [str(twin.python), "-m", "pytest", *paths, *arguments]
    return TestRun(title, command, {**twin.environment(), **(variables or {})})


def all_runs(ready: dict[str, Twin], arguments: list[str]) -> list[TestRun]:
    """Describe, for `run`, the runs of `./twins test`, the longest first;
    pre-commit only without `arguments`.
    """
    first = next(iter(ready.values()))
    runs = [] if arguments else _hooks(ready.get("gil", first))
    # Tests that are not about an interpreter (the images,
    # ./twins itself, the report's page) run once.
    # The first test builds them, for half an hour where nothing is cached and much else runs.
    runs.append(_pytest("the images", first, ["images"], ["-o", "timeout=3000", *arguments]))
    runs.append(_pytest(f"{first.name}, the benchmark", first, OF_THE_BENCHMARK, arguments))
    runs.append(
        _pytest(
            "./twins, the report's page and clusters",
            first,
            ["native", "browser", "cluster"],
            arguments,
        )
    )
    for name, twin in ready.items():
        runs.append(_pytest(f"{name}, the loader: {twin.label}", twin, OF_THE_LOADER, arguments))
    runs.append(_pytest(f"{first.name}, the audit and programs", first, PROGRAMS, arguments))
    # Tests that another run makes in full: only the quick ones.
    # With arguments, all tests that these select.
    repeated = arguments or ["--quick"]
    for name, twin in ready.items():
        if twin is not first:
            tools = [*OF_THE_BENCHMARK, *PROGRAMS]
            runs.append(
                _pytest(f"{name}, the benchmark, the audit and programs", twin, tools, repeated)
            )
    if "ft" in ready:
        runs += _ft_runs(ready["ft"], arguments, repeated)
    return runs


def _ft_runs(ft: Twin, arguments: list[str], repeated: list[str]) -> list[TestRun]:
    """Describe the runs that only the free-threaded twin can make.
    *repeated*: arguments for tests run elsewhere.
    """
    forced = {"PYTHON_GIL": "1"}
    return [
        _pytest("ft with the GIL forced on", ft, ["unit/loader", "conformance"], repeated, forced),
        _pytest("ft with the GIL forced on: races", ft, ["stress"], arguments, forced),
        _pytest("ft, each test in four threads at once", ft, AT_ONCE, [*FOUR_THREADS, *arguments]),
    ]


def _hooks(twin: Twin) -> list[TestRun]:
    """Describe the run of pre-commit; return [] if it cannot run here."""
    reason = checks.why_not()
    if reason:
        print(f"== format, lint and types: skipped: {reason}")
        return []
    return [TestRun("format, lint and types", checks.command(twin), checks.variables())]


# Folders and pytest's options. More runs than the processors of a small machine, as many tests
# wait; the longest first.
_APART = ("cache", "decode", "diagnosis", "state")
QUICK = {
    "quick: the benchmark": (OF_THE_BENCHMARK, []),
    "quick: the loader": (
        ["unit/loader"],
        [f"--ignore={CHECKOUT}/tests/unit/loader/{name}" for name in _APART],
    ),
    f"quick: the loader's {', '.join(_APART)}": ([f"unit/loader/{name}" for name in _APART], []),
    "quick: the audit, repro, ./twins": (["unit/safety", "unit/runtime", "native"], []),
    "quick: as torch's": (["conformance"], []),
}


def quick_runs(twin: Twin, arguments: list[str]) -> list[TestRun]:
    """Return the runs of `./twins test --quick`, without tests that start containers,
    browsers or programs.
    """
    return [
        _pytest(title, twin, folders, ["--quick", *arguments, *options])
        for title, (folders, options) in QUICK.items()
    ]


@contextlib.contextmanager
def _interruption_afterwards():
    """Context manager: if SIGINT (Ctrl-C) or SIGTERM comes during the block,
    call its handler after the block.
    """
    came: list[signal.Signals] = []
    handlers = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        handler = signal.getsignal(number)
        if callable(handler):  # in the background of a script, SIGINT is ignored
            handlers[number] = handler
    for number in handlers:
        signal.signal(number, lambda number, _: came.append(signal.Signals(number)))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        handlers[came[0]](came[0], None)


@sigterm_as_ctrl_c()
def run(runs: list[TestRun], selection: bool) -> int:
    """Run the commands `runs`, several at a time; return the exit status: 0 if all passed, else 1.

    SIGTERM raises KeyboardInterrupt, as Ctrl-C does,
    once the output of the commands that run then is printed.

    `selection` is true if the user gave arguments for pytest. A run then also passes if pytest
    finds no test for it.
    """
    waiting = deque(runs)
    running = dict[int, TestRun]()
    failed = list[str]()
    try:
        while waiting or running:
            if waiting and len(running) < AT_A_TIME:
                test_run = waiting.popleft()
                with _interruption_afterwards():
                    # else a run that has started could go on unnoticed
                    running[test_run.start()] = test_run
                continue
            test_run = running.pop(_wait_for_any())
            if not test_run.finish(selection):
                failed.append(test_run.title)
    except KeyboardInterrupt:
        _interrupt(running, selection)
        raise
    print(f"== {len(runs) - len(failed)} of {len(runs)} runs passed")
    return _exit_status(failed)


def _exit_status(failed: list[str]) -> int:
    """Name the runs that failed; return the exit status."""
    for title in failed:
        print(f"   failed: {title}", file=sys.stderr)
    return 1 if failed else 0


def _wait_for_any() -> int:
    """Wait until a child of this process has ended; return its id."""
    # WNOWAIT leaves the exit status to Popen.wait.
    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    assert ended  # None comes only with WNOHANG
    return ended.si_pid


def _interrupt(running: dict[int, TestRun], selection: bool) -> None:
    """Interrupt the runs, {process id: run}. pytest ends its test,
    cleans up after it and reports.

    A second interruption kills those that have not ended.
    """
    try:
        for pid in running:
            os.kill(pid, signal.SIGINT)
        if running:
            print(
                "== interrupted: the runs clean up and report; Ctrl-C again kills them", flush=True
            )
        end = time.monotonic() + REPORTS_WITHIN
        for test_run in running.values():
            test_run.finish(selection, max(0.0, end - time.monotonic()))
    except BaseException:  # also a pipe that nobody reads any more
        with _interruption_afterwards():
            for test_run in running.values():
                if test_run.process and test_run.process.poll() is None:
                    test_run.kill()
        raise
