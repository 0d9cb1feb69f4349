"""``python -m ftsafety.audit``: runs the audit in a process of its own and says what became of it."""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from ftrun.configurations import command
from ftrun.escape import any_locale, print_report, terminal
from ftrun.protocol import LONGEST_LINE, conforms, decode
from ftsafety.audit import gil
from ftsafety.audit.arguments import arguments_of, parse
from ftsafety.audit.report import FORM, LEVELS, PROBLEM, Finding, Line, Report

_GRACE = 2.0
"""Seconds for the stacks to be written, once they are asked for."""


_STARTING = "starting"
"""What a process does before it says what it does."""


class _Outcome(NamedTuple):
    """How one process ended."""

    answer: dict[str, Any] | None
    """What it said last: a report or an error."""
    signal: str | None
    stacks: str
    timed_out: bool
    step: str
    """What it was doing."""
    threads: bool
    """Whether several threads did it."""


def main(arguments: list[str] | None = None) -> int:
    """Audits; prints the report; returns the exit status."""
    options = parse(arguments)
    any_locale()
    begin = time.monotonic()
    try:
        outcome = _run(options, begin)
        crashes = []
        if outcome.signal and not outcome.timed_out:
            _say(f"the audit's process was ended by {outcome.signal}; a second look")
            crashes.append(outcome)
            outcome = _run(options, begin)
            if outcome.signal and not outcome.timed_out:
                crashes.append(outcome)
    except KeyboardInterrupt:
        _say("interrupted; nothing is left running")
        return 130
    if len(crashes) == 2 and any(crash.threads for crash in crashes):
        report = _crash_report(options, crashes, time.monotonic() - begin)
    elif outcome.answer and "report" in outcome.answer:
        report = Report.from_dict(outcome.answer["report"])
        report.unconfirmed += [
            f"the process was ended by {crash.signal} while {crash.step}, but not in a second "
            f"run. The stacks:\n{crash.stacks}"
            for crash in crashes
        ]
    else:
        return _failed(options, outcome)
    print_report(json.dumps(report.to_dict(), indent=1) if options.json else terminal(str(report)))
    return 0 if report.ok else 1


def _failed(options: Any, outcome: _Outcome) -> int:
    if outcome.signal and not outcome.timed_out:
        text = (
            f"{outcome.signal} ended the process while {outcome.step}, with one thread at a time, so it is no race. "
            f"The stacks:\n{outcome.stacks}"
        )
        status = 3
    elif outcome.timed_out:
        text = (
            f"not finished within --time-limit {options.time_limit:g} s, while {outcome.step}. The stacks of its "
            f"threads:\n{outcome.stacks or '(no stacks: the interpreter did not answer)'}"
        )
        status = 3
    elif outcome.answer:
        text, status = outcome.answer["error"], outcome.answer["status"]
    elif outcome.step == _STARTING:
        text, status = "the audit's process ended before it loaded the dataset; what it said is above", 3
    else:
        text, status = f"the dataset ended the process while {outcome.step} (os._exit()?): it cannot be audited", 3
    if options.json:
        print_report(json.dumps({"error": text, "exit_status": status}, indent=1))
    _say(text)
    return status


def _run(options: Any, begin: float) -> _Outcome:
    """One process from start to end, within what is left of the time limit."""
    read, write = os.pipe()
    with tempfile.TemporaryFile("w+", errors="replace") as stacks, open(read, "rb", buffering=0) as pipe:
        started = [
            *command(sys.executable, "ftsafety.audit.child"),
            str(write),
            str(stacks.fileno()),
            *arguments_of(options),
        ]
        try:
            process = subprocess.Popen(
                started,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                pass_fds=(write, stacks.fileno()),
                start_new_session=True,
            )  # Ctrl-C comes here, and all of the child's processes end together
        finally:
            os.close(write)
        try:
            answer, step, threads, timed_out = _listen(pipe, begin + options.time_limit)
            if timed_out:
                process.send_signal(signal.SIGUSR1)  # stacks, please
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)  # its own end: after a crash, its signal
        finally:
            _end(process)
        stacks.seek(0)
        name = None
        if process.returncode < 0 and not answer:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-process.returncode).name
            name = name or f"signal {-process.returncode}"
        return _Outcome(answer, name, _shorten(stacks.read()), timed_out, step, threads)


def _end(process: subprocess.Popen) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # what the dataset started, too
    process.wait()


def _listen(pipe: Any, deadline: float) -> tuple[dict[str, Any] | None, str, bool, bool]:
    """(the last answer, the last step, whether several threads took it, whether *deadline* came first).

    The dataset may write into the pipe, or close it: what is none of the child's messages is not one.
    """
    answer, step, threads, rest = None, _STARTING, False, b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return None, step, threads, True
            data = pipe.read(65536)
            if not data or len(rest) > LONGEST_LINE:
                return answer, step, threads, False
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError):
                    message: Any = decode(line)
                    if conforms(message, {"progress": str, "threads": bool}):
                        step, threads = message["progress"], message["threads"]
                        _say(step)
                    elif conforms(message, {"error": str, "status": int}) and message["status"] in (2, 3):
                        answer = message
                    elif conforms(message, {"report": FORM}):
                        if {finding["level"] for finding in message["report"]["findings"]} <= {*LEVELS}:
                            answer = message


def _crash_report(options: Any, crashes: list[_Outcome], seconds: float) -> Report:
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
    """The current thread's stack, mostly, without what belongs to the audit."""
    foreign = (os.path.join(os.path.dirname(__file__), ""), "/threading.py", '"<frozen runpy>"', "Extension modules:")
    kept = [line for line in stacks.rstrip().splitlines() if line.strip() and not any(each in line for each in foreign)]
    # A thread of which nothing is left was waiting, or in the audit's own code.
    kept = [line for line, after in zip(kept, [*kept[1:], ""]) if not _is_heading(line) or after.startswith("  ")]
    here = next((number for number, line in enumerate(kept) if line.startswith("Current thread")), 0)
    kept = kept[:1] + kept[here:] + kept[1:here]  # the thread that crashed comes first
    return "\n".join(kept[:lines] + ["..."] * (len(kept) > lines))


def _is_heading(line: str) -> bool:
    return line.startswith(("Thread 0x", "Current thread 0x"))


def _say(text: str) -> None:
    print(f"audit: {terminal(text)}", file=sys.stderr, flush=True)
