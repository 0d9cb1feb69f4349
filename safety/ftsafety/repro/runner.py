"""Program that runs the script as ``__main__``. ftsafety.repro.run starts this file alone, with any Python.

    runner.py SPECIFICATION        (one JSON object)

faulthandler writes stacks into one pipe. A second pipe gets messages, one JSON object a line:

- at the start of the script;
- for each exception that ended the script or one of its threads;
- for each future's exception that the script never read;
- at the end: the GIL's state, the imported modules and the peak memory.

The script gets a fresh module ``__main__``, its own folder first on ``sys.path``, and its arguments.
"""

import _thread
import ast
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
# Names by which guards (see guard_of) are recognised, by cause.
GUARDS = {
    "gil": ("_is_gil_enabled", "Py_GIL_DISABLED", "PYTHON_GIL"),
    "version": ("version_info", "hexversion", "python_version", "python_version_tuple", "sys.version"),
    "arguments": ("argv",),
}
PARSERS = ("argparse.py", "optparse.py", "getopt.py", f"{os.sep}click{os.sep}", f"{os.sep}docopt")
WITHOUT = ("cacheprovider", "threadexception", "unraisableexception", "faulthandler")
PYTEST = ("-q", *(f"-pno:{plugin}" for plugin in WITHOUT))


def main() -> None:
    wanted = json.loads(sys.argv[1])
    for name, value in wanted["limits"].items():
        which = getattr(resource, name)
        hard = resource.getrlimit(which)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))
    die_first()
    for descriptor in (wanted["status"], wanted["stacks"]):
        os.set_inheritable(descriptor, False)
    faulthandler.enable(file=wanted["stacks"], all_threads=True)
    faulthandler.register(DUMP_SIGNAL, file=wanted["stacks"], all_threads=True, chain=False)
    # This module stays importable under another name: its functions are still needed.
    sys.modules["__repro_runner__"] = sys.modules["__main__"]
    sender = Sender(wanted["status"], wanted["folder"])
    watch_futures(sender)
    watch_threads(sender)
    sender.begin()
    try:
        START[wanted["how"]](wanted["script"], wanted["module"], wanted["arguments"], sender)
    except SystemExit as error:
        sender.exception(error, None)
        raise
    except BaseException as error:
        sender.exception(error, None)
        # Drop this file's frame from the traceback, and those of runpy.
        trace = error.__traceback__
        while trace is not None and ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def run_file(path: str, _module: str, arguments: list, _sender) -> None:
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    with open(path, "rb") as file:
        source = file.read()
    exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)


def run_module(path: str, module: str, arguments: list, sender) -> None:
    sys.argv[:] = [path, *arguments]
    sys.path.insert(0, sender.folder)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def run_tests(path: str, _module: str, arguments: list, sender) -> None:
    import pytest

    sys.argv[:] = ["pytest", path, *arguments]
    sys.path.insert(0, os.path.dirname(path))
    settings = os.path.join(sender.folder, "pytest.ini")
    # Without these, pytest would look for settings and a conftest.py above the folder, such as in /tmp.
    own = ["--rootdir", sender.folder, "--confcutdir", sender.folder]
    own += ["-c", settings if os.path.exists(settings) else os.devnull]
    tests = Tests(sender)
    status = int(pytest.main([*PYTEST, *own, path, *arguments], plugins=[tests]))
    if not tests.ran and status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sender.cause = why_skipped(tests.skipped)
        status = int(pytest.ExitCode.NO_TESTS_COLLECTED)
    if status:
        sys.exit(status)


START = {"file": run_file, "module": run_module, "tests": run_tests}


def why_skipped(reason: str) -> tuple:
    """Return the cause, and what it is about, that the reason of a skipped test names."""
    missing = re.match(r"Skipped: could not import '(\w+)", reason)
    if missing and importlib.machinery.PathFinder.find_spec(missing[1]) is None:
        return "module", missing[1]
    return "tests", reason.removeprefix("Skipped: ")[:100]


class Tests:
    """Plugin for pytest that sends the exceptions of failed tests to the supervisor, and notes if any test ran."""

    def __init__(self, sender):
        self._sender = sender
        self.ran, self.skipped = False, ""

    def pytest_runtest_logreport(self, report):
        # A test that fails as it is expected to has run, but counts as skipped.
        self.ran |= report.failed or (report.when == "call" and (report.passed or hasattr(report, "wasxfail")))
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skipped = self.skipped or str(report.longrepr[2])

    pytest_collectreport = pytest_runtest_logreport

    def pytest_exception_interact(self, node, call):
        if call.excinfo is not None:
            self._sender.exception(call.excinfo.value, None, f" ({node.name})")


class Sender:
    """Sender of messages to the supervisor, the process that judges the script."""

    def __init__(self, pipe: int, folder: str):
        self.folder = folder
        self.raced = False
        """True once a thread was started."""
        self.cause: tuple = ()  # (cause, detail) that is known before the exception that ends the script
        self._pipe, self._owner, self._left = pipe, os.getpid(), MOST_MESSAGES
        self._gil = getattr(sys, "_is_gil_enabled", lambda: True)
        self._before: set = set()
        self._futures: list = []

    def say(self, **what) -> None:
        # One write, so that lines of several threads do not mix. A forked child reports nothing.
        if os.getpid() == self._owner and self._left > 0:
            self._left -= 1
            with contextlib.suppress(OSError):  # the script closed the pipe, or its reader has gone
                os.write(self._pipe, json.dumps(what).encode() + b"\n")

    def begin(self) -> None:
        # Registered first, so called last: after the threads were joined and the script's own handlers ran.
        atexit.register(self.end)
        threading.excepthook = self.in_thread
        self._before = top_level()
        self.say(begin=True, gil=self._gil())

    def end(self) -> None:
        self._left += MOST_MESSAGES
        for asked, text in self._futures:
            if not asked:
                self.say(future=text)
        self._left += 1
        modules = sorted(top_level() - self._before)[:2000]
        self.say(end=True, gil=self._gil(), modules=modules, memory=peak_memory())

    def in_thread(self, arguments, /) -> None:
        if arguments.exc_type is not SystemExit:
            name = arguments.thread.name if arguments.thread is not None else "a thread"
            self.exception(arguments.exc_value or arguments.exc_type(), name)
        threading.__excepthook__(arguments)

    def exception(self, error, thread, more="") -> None:
        cause, what = "", ""
        with contextlib.suppress(Exception):  # attributes and str() of an exception may raise anything
            cause, what = self._cause(error)
        place = self._place(error)
        text = describe(error) + more
        self.say(kind=type(error).__name__, exception=text, thread=thread, place=place, cause=cause, what=what)

    def future(self, error) -> list:
        """Record an exception of a future; return the record, [True once the script has read it, description]."""
        record = [False, f"{describe(error)}{' at ' * bool(self._place(error))}{self._place(error)}"]
        if len(self._futures) < MOST_MESSAGES:
            self._futures.append(record)
        return record

    def _frames(self, error) -> list:
        found: list = []
        trace = error.__traceback__
        while trace is not None and len(found) < 10_000:
            if not ours(trace.tb_frame.f_code.co_filename):
                found.append(trace)
            trace = trace.tb_next
        return found

    def _own(self, name) -> bool:
        return isinstance(name, str) and name.startswith(self.folder + os.sep)

    def _place(self, error) -> str:
        """Return "FILE:LINE in FUNCTION" of the innermost frame in the script's folder, else of the innermost frame."""
        frames = self._frames(error)
        inside = [each for each in frames if self._own(each.tb_frame.f_code.co_filename)] or frames
        if not inside:
            return ""
        code = inside[-1].tb_frame.f_code
        name = code.co_filename
        short = os.path.relpath(name, self.folder) if self._own(name) else os.path.basename(name)
        return f"{short}:{inside[-1].tb_lineno} in {code.co_name}"

    def _cause(self, error) -> tuple:
        """Return (cause, detail) if *error* ended the script before threads could race, such as ("module", "h5py").

        Returns empty strings for other errors.
        """
        if self.cause:
            return self.cause
        if isinstance(error, ModuleNotFoundError) and error.name:
            missing = error.name.partition(".")[0]
            if missing not in sys.modules and importlib.machinery.PathFinder.find_spec(missing) is None:
                return "module", missing
        if isinstance(error, FileNotFoundError) and error.filename is not None:
            name = os.fsdecode(error.filename)
            scratch = os.path.dirname(self.folder)
            if not os.path.exists(name) and not os.path.abspath(name).startswith((scratch + "/tmp", scratch + "/home")):
                return "lost" if self.raced else "file", os.path.relpath(name, self.folder) if self._own(name) else name
        if isinstance(error, SyntaxError) and error.filename and self._own(error.filename):
            where = f"{os.path.relpath(error.filename, self.folder)}, line {error.lineno}"
            return "syntax", f"{where}: {(error.text or '').strip()[:100]}"
        if self.raced:
            return "", ""
        if isinstance(error, ImportError) and "attempted relative import" in str(error):
            return "relative", ""
        if isinstance(error, EOFError) and "EOF when reading a line" in str(error):
            return "stdin", ""
        frames = self._frames(error)
        files = [each.tb_frame.f_code.co_filename for each in frames]
        if isinstance(error, SystemExit) and error.code and any(parser in file for file in files for parser in PARSERS):
            return "arguments", ""
        inside = [each for each in frames if self._own(each.tb_frame.f_code.co_filename)]
        # The script ended itself, or a function did that it calls to check if it can run.
        return guard_of(inside[-1].tb_frame.f_code.co_filename, inside[-1].tb_lineno, error) if inside else ("", "")


def guard_of(path: str, line: int, error) -> tuple:
    """Return (cause, source of the test) if the statement at *line* belongs to a guard, else empty strings.

    A guard is a test that ends the script, for example if the GIL is on or arguments are missing.
    """
    with open(path, "rb") as file:
        tree = ast.parse(file.read())
    known = {cause: set(names) for cause, names in GUARDS.items()}
    for node in ast.walk(tree):  # names derived from them: free_threaded = not sys._is_gil_enabled()
        named = [each.id for each in getattr(node, "targets", ()) if isinstance(each, ast.Name)]
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and len(node.body) <= 2:
            named = [node.name]
        for names in known.values():
            if named and mentions(node, names):
                names.update(named)
    for node in ast.walk(tree):
        if not (getattr(node, "lineno", line + 1) <= line <= getattr(node, "end_lineno", line - 1)):
            continue
        # An `if` is a guard only if one of its branches ends the script.
        if isinstance(node, ast.Assert) or (isinstance(node, ast.If) and ends(node, line, error)):
            test = node.test
        elif isinstance(node, ast.stmt) and not hasattr(node, "body") and isinstance(error, (IndexError, ValueError)):
            if mentions(node, {"argv"}):
                return "arguments", ast.unparse(node)[:100]
            continue
        else:
            continue
        for cause, names in known.items():
            if mentions(test, names):
                return cause, ast.unparse(test)[:100]
    return "", ""


def ends(node, line: int, error) -> bool:
    """True if *error* is a SystemExit, or if *line* is a `raise` directly in a branch of the `if` statement *node*."""
    raised = [each for each in [*node.body, *node.orelse] if isinstance(each, ast.Raise)]
    return isinstance(error, SystemExit) or any(each.lineno <= line <= (each.end_lineno or line) for each in raised)


def mentions(node, names: set) -> bool:
    for each in ast.walk(node):
        name = each.id if isinstance(each, ast.Name) else each.attr if isinstance(each, ast.Attribute) else None
        text = each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else None
        if name in names or text in names or (name == "version" and "sys.version" in names):
            return True
    return False


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
        for name in ("_start_new_thread", "_start_joinable_thread", "start_new_thread", "start_joinable_thread"):
            if hasattr(module, name):
                originals.append((module, name, getattr(module, name)))
                setattr(module, name, watched(getattr(module, name)))
    os.register_at_fork(before=lambda: setattr(sender, "raced", True))


def watch_futures(sender: Sender) -> None:
    """Record exceptions of futures, and whether the script reads each, once it imports concurrent.futures."""

    class Exceptions:
        """Descriptor that replaces Future._exception. A wrapper of Future.result would show up in tracebacks."""

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


def ours(filename: str) -> bool:
    return filename == __file__ or filename == "<frozen runpy>"


def peak_memory() -> int:
    """Return this process's peak memory (VmHWM) in bytes; 0 if the kernel does not report it."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))
    return 0


def die_first() -> None:
    """Make the kernel kill the script, not its supervisor, if memory runs out."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def top_level() -> set:
    return {name.partition(".")[0] for name in list(sys.modules)}


def describe(error) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    return f"{type(error).__name__}: {text}"[:500]


if __name__ == "__main__":
    main()
