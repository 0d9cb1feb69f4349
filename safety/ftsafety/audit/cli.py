"""``python -m ftsafety.audit``: run the audit in a process of its own, and report how that ended."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any, NamedTuple

from ftrun.configurations import command
from ftrun.escape import any_locale, print_report, terminal
from ftrun.interruption import Interruption
from ftrun.protocol import LONGEST_LINE, conforms, decode
from ftrun.supervise import DRAIN_SECONDS, Child, Stopped, signal_name
from ftsafety.audit import gil
from ftsafety.audit.arguments import arguments_of, parse
from ftsafety.audit.report import FORM, LEVELS, PROBLEM, Finding, Line, Report

_GRACE = 2.0
"""Seconds for the process to end by itself, once it has given its answer."""
_KEPT = 256 * 1024
"""Bytes of the stacks, at their start and again at their end."""
_STARTING = "starting"
"""The step of a process before its first message."""


class _Ended(NamedTuple):
    """How one process ended."""

    answer: dict[str, Any] | None
    """Its last report or error."""
    signal: str | None
    stacks: str
    timed_out: bool
    step: str
    """What it was doing."""
    threads: bool
    """True if several threads did it."""


def main(arguments: list[str] | None = None) -> int:
    """Run an audit and print its report; return the exit status."""
    options = parse(arguments)
    any_locale()
    begin = time.monotonic()
    deadline = begin + options.time_limit
    crashes = []
    try:
        with Interruption() as interruption:
            ended = _run(options, deadline, interruption)
            if ended.signal and not ended.timed_out:
                _say(f"the audit's process was ended by {ended.signal}; a second look")
                crashes.append(ended)
                ended = _run(options, deadline, interruption)
                if ended.signal and not ended.timed_out:
                    crashes.append(ended)
    except Stopped:
        _say("interrupted; nothing is left running")
        return 128 + interruption.signum
    if len(crashes) == 2 and any(crash.threads for crash in crashes):
        report = _crash_report(options, crashes, time.monotonic() - begin)
    elif ended.answer and "report" in ended.answer:
        report = Report.from_dict(ended.answer["report"])
        report.unconfirmed += [
            f"the process was ended by {crash.signal} while {crash.step}, but not in a second "
            f"run. The stacks:\n{crash.stacks}"
            for crash in crashes
        ]
    else:
        return _failed(options, ended)
    print_report(json.dumps(report.to_dict(), indent=1) if options.json else terminal(str(report)))
    return 0 if report.ok else 1


def _failed(options: Any, ended: _Ended) -> int:
    if ended.signal and not ended.timed_out:
        text = (
            f"{ended.signal} ended the process while {ended.step}, with one thread at a time, so it is no race. "
            f"The stacks:\n{ended.stacks}"
        )
        status = 3
    elif ended.timed_out:
        text = (
            f"not finished within --time-limit {options.time_limit:g} s, while {ended.step}. The stacks of its "
            f"threads:\n{ended.stacks or '(no stacks: the interpreter did not answer)'}"
        )
        status = 3
    elif ended.answer:
        text, status = ended.answer["error"], ended.answer["status"]
    elif ended.step == _STARTING:
        text, status = "the audit's process ended before it loaded the dataset; what it said is above", 3
    else:
        how = "(os._exit()?), or closed the audit's descriptors"
        text, status = f"the dataset ended the process while {ended.step} {how}: it cannot be audited", 3
    if options.json:
        print_report(json.dumps({"error": text, "exit_status": status}, indent=1))
    _say(text)
    return status


class _Messages:
    """Messages of one process. The dataset may write into their pipe too: what has another form is ignored."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None
        self.step, self.threads, self.closed = _STARTING, False, False
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Take up what was read from the pipe; nothing at its end."""
        self.closed = not data or len(self._rest) > LONGEST_LINE
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError):
                message: Any = decode(line)
                if conforms(message, {"progress": str, "threads": bool}):
                    self.step, self.threads = message["progress"], message["threads"]
                    _say(self.step)
                elif conforms(message, {"error": str, "status": int}) and message["status"] in (2, 3):
                    self.answer = message
                elif conforms(message, {"report": FORM}):
                    if {finding["level"] for finding in message["report"]["findings"]} <= {*LEVELS}:
                        self.answer = message


def _run(options: Any, deadline: float, interruption: Interruption) -> _Ended:
    """Run one process from start to end, within what is left of the time limit."""
    watch = {interruption.fileno(): interruption.wanted}
    program = [*command(sys.executable, "ftsafety.audit.child")]
    child = Child(
        lambda pipe, stacks: [*program, str(pipe), str(stacks), *arguments_of(options)],
        os.environ,
        pipes=2,
        keep=_KEPT,
        tree=True,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        stderr=None,
    )
    with contextlib.closing(child):
        pipe, stacks = child.pipes
        messages = _Messages()
        pipe.take = messages.take
        timed_out = not child.listen(watch, deadline - time.monotonic(), lambda: messages.closed)
        if timed_out:
            child.read_stacks(signal.SIGUSR1, stacks, watch)
        ended = child.listen(watch, 0.0 if timed_out else _GRACE)
        child.kill()
        child.listen({}, DRAIN_SECONDS)
    by = signal_name(-child.returncode) if ended and child.returncode < 0 and not messages.answer else None
    text = _shorten(stacks.text().decode(errors="replace"))
    return _Ended(None if timed_out else messages.answer, by, text, timed_out, messages.step, messages.threads)


def _crash_report(options: Any, crashes: list[_Ended], seconds: float) -> Report:
    first, second = crashes
    crashed = first.stacks.partition("Current thread")[2] or first.stacks
    named = re.search(r'File "(.+)", line (\d+)', crashed)
    where = str(Line(named[1], int(named[2]))) if named else options.target
    finding = Finding(
        "crash",
        PROBLEM,
        f"the interpreter crashes under threads: {first.signal}",
        where,
        f"while {first.step}. The stacks:\n{first.stacks}",
        "put a lock around the object of an extension module that threads share, or make one per thread "
        "(threading.local); report the crash to the module's authors",
        f"in both of two processes ({first.signal}, {second.signal})",
    )
    return Report(
        options.target,
        f"{gil.describe()}; {options.threads} threads",
        [finding],
        seconds=seconds,
        tried=["the audit in two processes, both of which crashed"],
        cannot=["anything else: fix the crash, and audit again"],
    )


def _shorten(stacks: str, lines: int = 60) -> str:
    """Return the stacks without the audit's own frames, the current thread's first, in at most `lines` lines."""
    foreign = (os.path.join(os.path.dirname(__file__), ""), "/threading.py", '"<frozen runpy>"', "Extension modules:")
    kept = [line for line in stacks.rstrip().splitlines() if line.strip() and not any(each in line for each in foreign)]
    # A thread without frames was waiting, or in the audit's own code.
    kept = [line for line, after in zip(kept, [*kept[1:], ""]) if not _is_heading(line) or after.startswith("  ")]
    here = next((number for number, line in enumerate(kept) if line.startswith("Current thread")), 0)
    kept = kept[:1] + kept[here:] + kept[1:here]  # the thread that crashed comes first
    return "\n".join(kept[:lines] + ["..."] * (len(kept) > lines))


def _is_heading(line: str) -> bool:
    return line.startswith(("Thread 0x", "Current thread 0x"))


def _say(text: str) -> None:
    print(f"audit: {terminal(text)}", file=sys.stderr, flush=True)
