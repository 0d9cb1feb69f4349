"""A process that forks one child per scenario: python -m tests.stress.nursery.

So a scenario that crashes or hangs takes nothing with it, and importing torch is paid for once.
Reads requests, a line of JSON each, from stdin: {"scenario": "module:Class", "seconds": S, "seed":
N, "limit": S}. Answers with a line: what ``engine.run`` returns, or {"outcome": "crashed" or
"hung", "failures": [stacks]}.

It has no thread of its own when it forks. When its stdin ends, its parent has gone, and it ends at
once with all that scenarios have started, and removes their temporary files: it leads a session,
whose processes it kills.
"""

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

from tests.stress import engine

_GRACE = 5.0
"""Seconds for the stacks of a child that hangs to be written."""


def find(name: str) -> type[engine.Scenario]:
    """Return the scenario "module:Class"."""
    module, _, cls = name.partition(":")
    return getattr(importlib.import_module(module), cls)


def run_in_child(request: dict[str, Any]) -> dict[str, Any]:
    """Fork, run the scenario, and return its outcome."""
    begin = time.monotonic()
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as stacks:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _child(request, answer, stacks)
        hung = not _wait(child, request["seconds"] + request["limit"])
        if hung:
            os.kill(child, signal.SIGUSR1)  # faulthandler: the stacks of all threads
            _wait(child, _GRACE)
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text, dump = (_read(file) for file in (answer, stacks))
    if text and not hung and status == 0:
        return json.loads(text)
    scenario = find(request["scenario"])
    if hung:
        what = f"hung: not over {request['limit']:g} s after its time"
    else:
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        what = f"crashed: {name}"
    return {
        **engine.about(scenario, request["seed"]),
        "iterations": None,
        "seconds": round(time.monotonic() - begin, 3),
        "failures": [f"{what}\n{dump}"],
        "outcome": "hung" if hung else "crashed",
    }


def _child(request: dict[str, Any], answer: Any, stacks: Any) -> None:
    status = 1
    try:
        faulthandler.enable(stacks, all_threads=True)
        faulthandler.register(signal.SIGUSR1, stacks, all_threads=True)
        result = engine.run(find(request["scenario"]), request["seconds"], request["seed"])
        answer.write(json.dumps(result).encode())
        answer.flush()
        status = 0
    except BaseException:
        faulthandler.dump_traceback(stacks, all_threads=True)
        stacks.write(traceback.format_exc().encode())
        stacks.flush()
    finally:
        os._exit(status)


def _wait(child: int, seconds: float) -> bool:
    """True if *child* ended within *seconds*; it stays to be waited for. Raises EOFError if the
    parent has gone.
    """
    descriptor = os.pidfd_open(child)
    try:
        # One request at a time: until it is answered, nothing comes from stdin but its end.
        ready = select.select([descriptor, sys.stdin], [], [], seconds)[0]
    finally:
        os.close(descriptor)
    if sys.stdin in ready:
        os.kill(child, signal.SIGKILL)  # it writes no more files
        raise EOFError
    return bool(ready)


def _end() -> None:
    """End this process and, if it leads a session, every other of its process group."""
    if os.getsid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def _read(file: Any) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def main() -> None:
    """Serve until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what scenarios print is no answer
    with (
        tempfile.TemporaryDirectory(prefix="ft-env-stress-", ignore_cleanup_errors=True) as folder,
        contextlib.suppress(EOFError),
    ):
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        for line in sys.stdin:
            print(json.dumps(run_in_child(json.loads(line))), file=answers, flush=True)
    _end()


if __name__ == "__main__":
    import torch  # noqa: F401  # once for all children

    import ftloader  # noqa: F401

    gc.freeze()  # a collection in a child need not look at torch
    main()
