"""Program that runs the script as ``__main__``. ftsafety.repro.run starts this file alone,
with any Python.

    runner.py SPECIFICATION        (one JSON object)

faulthandler writes stacks into one pipe. A second pipe gets messages, one JSON object a line:

- at the start of the script;
- for each exception that ended the script or one of its threads;
- for each future's exception that the script never read;
- at the end: the GIL's state, the imported modules, the peak memory, whether the script has started
  a thread or forked, whether it has asked for input when there was none, and the patterns for files
  that no file matched.

The script gets a fresh module ``__main__``, its own folder first on ``sys.path``,
and its arguments.
"""

import _thread
import atexit
import contextlib
import faulthandler
import importlib.machinery
import json
import os
import re
import resource
import runpy
import signal
import sys
import threading
import types
from typing import Any

# The signal that asks for the stacks of all threads: a real-time signal, which scripts rarely use.
DUMP_SIGNAL = signal.SIGRTMIN + 7
MOST_MESSAGES = 50
# ast.PyCF_ALLOW_TOP_LEVEL_AWAIT and inspect.CO_COROUTINE
ALLOW_TOP_LEVEL_AWAIT = 0x2000
CO_COROUTINE = 0x80
WITHOUT = ("cacheprovider", "threadexception", "unraisableexception", "faulthandler")
PYTEST = ("-q", *(f"-pno:{plugin}" for plugin in WITHOUT))


def neighbour(name: str) -> types.SimpleNamespace:
    """Return a module beside this one. It is not imported:
    the script would find our modules on the path, too.
    """
    path = os.path.join(os.path.dirname(__file__), name)
    return types.SimpleNamespace(**runpy.run_path(path))


exceptions = neighbour("exceptions.py")


def main() -> None:
    request = json.loads(sys.argv[1])
    for name, value in request["limits"].items():
        limit(getattr(resource, name), value)
    die_first()
    for descriptor in (request["status"], request["stacks"]):
        os.set_inheritable(descriptor, False)
    faulthandler.enable(file=request["stacks"], all_threads=True)
    faulthandler.register(DUMP_SIGNAL, file=request["stacks"], all_threads=True, chain=False)
    # This module stays importable under another name: its functions are still needed.
    sys.modules["__repro_runner__"] = sys.modules["__main__"]
    sender = Sender(request["status"], request["folder"])
    watch_futures(sender)
    watch_threads(sender)
    watch_stdin(sender)
    if request["lists"]:
        sender.listings = neighbour("listings.py").Listings(
            request["script"], sender, exceptions.shown
        )
        sys.addaudithook(sender.listings)
    sender.begin()
    try:
        START[request["how"]](request["script"], request["module"], request["arguments"], sender)
    except SystemExit as error:
        sender.exception(error, None)
        raise
    except BaseException as error:
        sender.exception(error, None)
        drop_our_frames(error)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def limit(resource_number: int, value: int) -> None:
    """Set a limit of the kernel; to less than *value* if the process may have no more."""
    hard = resource.getrlimit(resource_number)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(resource_number, (value, value))


def drop_our_frames(error: BaseException) -> None:
    """Drop this file's frame from the traceback, and those of runpy."""
    trace = error.__traceback__
    while trace is not None and exceptions.ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    error.__traceback__ = trace


def run_file(path: str, _module: str, arguments: list, _sender) -> None:
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    with open(path, "rb") as file:
        source = file.read()
    code = compiled(source, path)
    if code.co_flags & CO_COROUTINE:
        import asyncio

        asyncio.run(eval(code, module.__dict__))
    else:
        exec(code, module.__dict__)


def compiled(source: bytes, path: str) -> types.CodeType:
    """Return the script's code: a coroutine's if it awaits outside of functions, as notebooks and
    the REPL may.
    """
    try:
        return compile(source, path, "exec", dont_inherit=True)
    except SyntaxError:
        with contextlib.suppress(SyntaxError):
            code = compile(source, path, "exec", ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            if code.co_flags & CO_COROUTINE:
                return code
        raise


def run_module(path: str, module: str, arguments: list, sender) -> None:
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, sender.folder)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def run_tests(path: str, _module: str, arguments: list, sender) -> None:
    """Run the script as pytest runs tests; exit with pytest's status."""
    import pytest

    sys.argv[:] = ["pytest", path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    settings = os.path.join(sender.folder, "pytest.ini")
    # Without these, pytest would look for settings and a conftest.py above the folder,
    # such as in /tmp.
    options = ["--rootdir", sender.folder, "--confcutdir", sender.folder]
    options += ["-c", settings if os.path.exists(settings) else os.devnull]
    tests = Tests(sender)
    status = int(pytest.main([*PYTEST, *options, path, *arguments], plugins=[tests]))
    if not tests.ran and status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sender.cause = why_skipped(tests.skipped)
        status = int(pytest.ExitCode.NO_TESTS_COLLECTED)
    if status:
        sys.exit(status)


START = {"file": run_file, "module": run_module, "tests": run_tests}


def why_skipped(reason: str) -> tuple:
    """Return (cause, detail) for a skipped test: ("module",
    name) if a module is missing, else ("tests", reason).
    """
    missing = re.match(r"Skipped: could not import '(\w+)", reason)
    if missing and importlib.machinery.PathFinder.find_spec(missing[1]) is None:
        return "module", missing[1]
    return "tests", reason.removeprefix("Skipped: ")[:100]


def is_run(report) -> bool:
    return report.passed or hasattr(report, "wasxfail")


class Tests:
    """Plugin for pytest that sends the exceptions of failed tests to *sender*. `ran`: True once any
    test has run.
    """

    def __init__(self, sender):
        self._sender = sender
        self.ran, self.skipped = False, ""

    def pytest_runtest_logreport(self, report):
        # A test that fails as it is expected to has run, but counts as skipped.
        self.ran |= report.failed or (report.when == "call" and is_run(report))
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped = self.skipped or str(report.longrepr[2])

    pytest_collectreport = pytest_runtest_logreport

    def pytest_exception_interact(self, node, call):
        if call.excinfo is None:
            return
        error = call.excinfo.value
        if call.when == "collect":
            # the file cannot be imported, which pytest says by an exception of its own
            self._sender.exception(error.__cause__ or error, None)
        else:  # the other tests run on
            self._sender.exception(error, node.name)


class Sender:
    """Sender of messages to the supervisor, the process that judges the script."""

    def __init__(self, pipe: int, folder: str):
        self.folder = folder
        self.raced = False
        """True once the script has started a thread or forked."""
        self.asked = False
        """True once the script has read from standard input although that is empty."""
        self.listings: Any = None
        """The hook that records listings of files; None if the script's source mentions none."""
        # (cause, detail) that is known before the exception that ends the script
        self.cause: tuple = ()
        self._pipe = pipe
        self._owner = os.getpid()
        self._left = MOST_MESSAGES
        self._gil = getattr(sys, "_is_gil_enabled", lambda: True)
        self._before: set = set()
        self._futures: list = []

    def say(self, **message) -> None:
        # One write, so that lines of several threads do not mix. A forked child reports nothing.
        if os.getpid() == self._owner and self._left > 0:
            self._left -= 1
            with contextlib.suppress(OSError):  # the script closed the pipe, or its reader has gone
                os.write(self._pipe, json.dumps(message).encode() + b"\n")

    def begin(self) -> None:
        # Registered first, so called last: after the threads were joined
        # and the script's own handlers ran.
        atexit.register(self.end)
        threading.excepthook = self.in_thread
        self._before = top_level()
        self.say(begin=True, gil=self._gil())

    def end(self) -> None:
        self._left += MOST_MESSAGES
        for was_read, text in self._futures:
            if not was_read:
                self.say(future=text)
        self._left += 1
        self.say(
            end=True,
            gil=self._gil(),
            modules=sorted(top_level() - self._before)[:2000],
            raced=self.raced,
            asked=self.asked,
            idle=self.listings is not None and self.listings.idle(),
            unmatched=[*self.listings.unmatched][:MOST_MESSAGES] if self.listings else [],
            memory=peak_memory(),
        )

    def in_thread(self, arguments, /) -> None:
        if arguments.exc_type is not SystemExit:
            name = arguments.thread.name if arguments.thread is not None else "a thread"
            self.exception(arguments.exc_value or arguments.exc_type(), name)
        threading.__excepthook__(arguments)

    def exception(self, error, thread) -> None:
        """Report an exception. *thread*: name of the thread or test that it ended;
        None if it ended the script.
        """
        cause, about = self.cause or exceptions.cause_of(error, self.folder, self.raced)
        self.say(
            kind=type(error).__name__,
            exception=exceptions.describe(error),
            thread=thread,
            place=exceptions.place_of(error, self.folder),
            cause=cause,
            what=about,
        )

    def future(self, error) -> list:
        """Record that a future failed with *error*; return the record, a list [False, description].

        Once the script reads the exception, the caller replaces False with True.
        """
        text = exceptions.describe(error)
        if place := exceptions.place_of(error, self.folder):
            text += f" at {place}"
        record = [False, text]
        if len(self._futures) < MOST_MESSAGES:
            self._futures.append(record)
        return record


def watch_threads(sender: Sender) -> None:
    """Set `sender.raced` when the script first starts a thread or forks."""
    originals: list = []

    def watched(original):
        def start(*arguments, **named):
            sender.raced = True
            for module, name, function in originals:
                setattr(module, name, function)
            return original(*arguments, **named)

        return start

    for module in (threading, _thread):
        for name in (
            "_start_new_thread",
            "_start_joinable_thread",
            "start_new_thread",
            "start_joinable_thread",
        ):
            if hasattr(module, name):
                originals.append((module, name, getattr(module, name)))
                setattr(module, name, watched(getattr(module, name)))
    os.register_at_fork(before=lambda: setattr(sender, "raced", True))


def watch_stdin(sender: Sender) -> None:
    """Set `sender.asked` when the script reads from an empty standard input, whose end it may take
    for an answer.
    """
    if sys.stdin is None or os.fstat(0).st_size:
        return

    # A stream of ours in its place would move what is allocated later, on which some bugs depend.
    raw: Any = sys.stdin.buffer.raw  # type: ignore[union-attr]

    def watched(read):
        def reads(*arguments):
            sender.asked = True
            return read(*arguments)

        return reads

    for name in ("read", "readall", "readinto"):
        setattr(raw, name, watched(getattr(raw, name)))


def watch_futures(sender: Sender) -> None:
    """Once the script imports concurrent.futures, record each future's exception, and whether the
    script reads it.
    """

    class Exceptions:
        """Descriptor in place of Future._exception, since wrapping
        Future.result would add a frame to tracebacks.
        """

        def __get__(self, future, owner=None):
            if future is None:
                return self
            record = future.__dict__.get("_repro")
            if record is not None:
                record[0] = True
            return future.__dict__.get("_exception")

        def __set__(self, future, error):
            future.__dict__["_exception"] = error
            if error is not None:
                future.__dict__["_repro"] = sender.future(error)

    class Finder:
        def find_spec(self, name, path=None, target=None):
            if name != "concurrent.futures._base":
                return None
            spec: Any = importlib.machinery.PathFinder.find_spec(name, path)
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                module.Future._exception = Exceptions()

            spec.loader.exec_module = exec_module
            return spec

    sys.meta_path.insert(0, Finder())


def peak_memory() -> int:
    """Return this process's peak memory (VmHWM) in bytes; 0 if the kernel does not report it."""
    with contextlib.suppress(OSError), open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def die_first() -> None:
    """Make this process the first that the kernel kills if memory runs out,
    so that the supervisor survives.
    """
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def top_level() -> set:
    return {name.partition(".")[0] for name in list(sys.modules)}


if __name__ == "__main__":
    main()
