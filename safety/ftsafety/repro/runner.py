"""Program that runs the script as ``__main__``. ftsafety.repro.run starts this file alone.

    runner.py SPECIFICATION        (one JSON object)

The program sets the kernel's limits for each process. faulthandler writes stacks into one pipe. A second pipe gets
messages: the script began; the exception it ended with; at the very end the GIL's state and the imported modules. The
script gets a fresh module ``__main__``, its own folder first on ``sys.path``, and its arguments.
"""

import atexit
import faulthandler
import json
import os
import resource
import signal
import sys
import threading
import types

# The signal that asks for the stacks of all threads: a real-time signal, which scripts rarely use.
DUMP_SIGNAL = signal.SIGRTMIN + 7


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
    gil = getattr(sys, "_is_gil_enabled", lambda: True)
    owner = os.getpid()

    def tell(**what) -> None:
        # One write, so that lines of several threads do not mix. A forked child reports nothing.
        if os.getpid() == owner:
            try:
                os.write(wanted["status"], json.dumps(what).encode() + b"\n")
            except OSError:
                pass  # the script closed the pipe, or its reader has gone

    def at_exit() -> None:
        # Registered first, so called last: after the threads were joined and the script's own handlers ran.
        tell(end=True, gil=gil(), modules=sorted(top_level() - before)[:2000])

    def in_thread(arguments, /) -> None:
        if arguments.exc_type is not SystemExit:
            name = arguments.thread.name if arguments.thread is not None else "a thread"
            tell(exception=describe(arguments.exc_type, arguments.exc_value), thread=name)
        threading.__excepthook__(arguments)

    atexit.register(at_exit)
    threading.excepthook = in_thread
    script = wanted["script"]
    module = types.ModuleType("__main__")
    module.__file__ = script
    module.__dict__["__builtins__"] = __builtins__
    # This module stays importable under another name: its functions are still needed.
    sys.modules["__repro_runner__"] = sys.modules["__main__"]
    sys.modules["__main__"] = module
    sys.argv[:] = [script, *wanted["arguments"]]
    sys.path.insert(0, os.path.dirname(script))
    before = top_level()
    tell(begin=True, gil=gil())
    try:
        with open(script, "rb") as file:
            source = file.read()
        exec(compile(source, script, "exec", dont_inherit=True), module.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        tell(exception=describe(type(error), error), thread=None)
        # Drop this file's frame from the traceback.
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(1)


def die_first() -> None:
    """Let the kernel end the script, and not the program that judges it, if memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
    except OSError:
        pass


def top_level() -> set:
    return {name.partition(".")[0] for name in list(sys.modules)}


def describe(kind, error) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    return f"{kind.__name__}: {text}"[:500]


if __name__ == "__main__":
    main()
