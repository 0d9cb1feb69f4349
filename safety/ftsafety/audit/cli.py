"""``python -m ftsafety.audit``: run the audit in a child process,
so that a crash or a hang ends in a report.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from ftrun.configurations import command
from ftrun.errors import Stopped
from ftrun.escape import any_locale, print_report, terminal
from ftrun.interruption import Interruption
from ftrun.protocol import LONGEST_LINE, conforms, decode
from ftrun.supervise import DRAIN_SECONDS, Child, signal_name
from ftsafety.audit import gil, kinds
from ftsafety.audit.arguments import NAME, check
from ftsafety.audit.empty_copies import NAMESPACES, CopyError, check_namespaces
from ftsafety.audit.report import ABSENT, FORM, Finding, Report, SourceLine

_GRACE = 2.0
"""Seconds to wait for the process to end by itself after it has sent its report or error."""
_KEPT = 256 * 1024
"""Number of bytes to keep of the start of the dumped stacks, and again of their end."""
_FAULTS = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP"}
"""Signals by which a process itself ends at a fault of its own."""
_STARTING = "starting"
"""The value of `step` until the process sends its first message."""


class _Process:
    """Child process that runs the audit. Its messages are checked, since the dataset can write to
    the same pipe.
    """

    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None
        """The report or error that the process sent."""
        self.step = _STARTING
        """The last step that the process reported."""
        self.threads = False
        """True if the step uses threads."""
        self.closed = False
        """True if the pipe has ended."""
        self.signal: str | None = None
        """The signal that ended the process within the time limit; None if no signal did."""
        self.stacks = ""
        self.timed_out = False
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Handle the messages in *data*, bytes from the child's pipe. Empty *data* means that the
        pipe was closed.
        """
        self.closed = not data or len(self._rest) > LONGEST_LINE
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):  # the dataset wrote this line
                self._take_message(decode(line))

    def _take_message(self, message: Any) -> None:
        if conforms(message, {"progress": str, "threads": bool}):
            self.step = message["progress"]
            self.threads = message["threads"]
            _say(self.step)
        elif conforms(message, {"error": str, "status": int}) and message["status"] in (2, 3):
            self.answer = message
        elif conforms(message, {"report": FORM}):
            Report.from_dict(message["report"])
            self.answer = message

    def run(
        self, options: Any, deadline: float, interruption: Interruption, memory: str = ""
    ) -> None:
        """Run the audit with *options*, until *deadline* (time.monotonic()) at the latest.
        A signal raises Stopped.

        *memory*: an empty folder for the audit without files that loading writes;
        "" for the usual audit.
        """
        watch = {interruption.fileno(): interruption.wanted}
        program = [
            *(NAMESPACES if memory else ()),
            *command(sys.executable, "ftsafety.audit.child"),
        ]
        values = json.dumps({**vars(options), "memory": memory})
        child = Child(
            lambda pipe, stacks: [*program, str(pipe), str(stacks), values],
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
            pipe.take = self.take
            self.timed_out = not child.listen(
                watch, deadline - time.monotonic(), lambda: self.closed
            )
            if self.timed_out:
                child.read_stacks(signal.SIGUSR1, stacks, watch)
            ended = child.listen(watch, 0.0 if self.timed_out else _GRACE)
            child.kill()
            child.listen({}, DRAIN_SECONDS)
        if self.timed_out:
            self.answer = None
        elif ended and child.returncode < 0 and not self.answer:
            self.signal = signal_name(-child.returncode)
        self.stacks = _shorten(stacks.text().decode(errors="replace"))


def main(arguments: list[str] | None = None) -> int:
    """Run an audit and print its report; return the exit status."""
    options = check(arguments)
    any_locale()
    begin = time.monotonic()
    deadline = begin + options.time_limit
    try:
        with Interruption() as interruption:
            crashes, process = _run_twice(options, deadline, interruption)
            report = _report_of(process)
            if report and ABSENT in report.cannot:
                _audit_without_files(report, options, deadline, interruption)
    except Stopped:
        _say("interrupted; nothing is left running")
        return 128 + interruption.signum
    crash = _crash_under_threads(crashes)
    if report:
        report.unconfirmed += [_once(other) for other in crashes if other is not crash]
    elif crash:
        report = _report_of_crashes(options, time.monotonic() - begin)
    else:
        return _failed(options, process)
    if crash:
        report.findings.append(_crash_finding(options, crash, crashes))
    _print(report, options.json)
    return 0 if report.ok else 1


def _print(report: Report, as_json: bool) -> None:
    if as_json:
        print_report(json.dumps(report.to_dict(), indent=1))
    else:
        print_report(terminal(str(report)))


def _run_twice(
    options: Any, deadline: float, interruption: Interruption
) -> tuple[list[_Process], _Process]:
    """Run the audit, a second time if a signal ends it; return the processes that signals ended,
    and the last one.
    """
    crashes: list[_Process] = []
    while True:
        process = _Process()
        process.run(options, deadline, interruption)
        if not process.signal:
            return crashes, process
        crashes.append(process)
        if len(crashes) == 2:
            return crashes, process
        _say(f"the audit's process was ended by {process.signal}; a second look")


def _report_of(process: _Process) -> Report | None:
    answer = process.answer or {}
    if "report" not in answer:
        return None
    return Report.from_dict(answer["report"])


def _crash_under_threads(crashes: list[_Process]) -> _Process | None:
    """Return the crash that is a finding: a fault under threads, though it came once, or the first
    of two crashes.

    Other signals, such as SIGKILL, may come from elsewhere.
    """
    for crash in crashes:
        if crash.threads and (len(crashes) > 1 or crash.signal in _FAULTS):
            return crash
    return None


def _once(crash: _Process) -> str:
    return (
        f"the process was ended by {crash.signal} while {crash.step}, but not in a second run. "
        f"The stacks:\n{crash.stacks}"
    )


def _report_of_crashes(options: Any, seconds: float) -> Report:
    """Return a report of an audit that crashed twice, still without its finding."""
    environment = f"{gil.describe()}; {options.threads} threads"
    report = Report(options.target, environment, seconds=seconds)
    report.tried.append("the audit in two processes, neither of which came to its end")
    report.cannot.append("anything else: fix the crash, and audit again")
    return report


def _audit_without_files(
    report: Report, options: Any, deadline: float, interruption: Interruption
) -> None:
    """Audit again without the files that loading writes where they are absent;
    add the outcome to *report*.
    """
    process = _Process()
    why = ""
    try:
        check_namespaces()
        with tempfile.TemporaryDirectory() as memory:
            process.run(options, deadline, interruption, memory)
    except (CopyError, OSError) as error:
        why = str(error)
    other = _report_of(process)
    if process.signal:
        report.unconfirmed.append(
            f"the process was ended by {process.signal} while {process.step}:\n{process.stacks}"
        )
    elif other and not why:
        _merge(report, other)
        report.cannot.remove(ABSENT)
    else:
        reason = (why or _why_no_report(process)).strip().splitlines()[-1]
        position = report.cannot.index(ABSENT)
        report.cannot[position] = f"{ABSENT} (the audit could not try it here: {reason})"


def _why_no_report(process: _Process) -> str:
    if process.answer:
        return process.answer["error"]
    if process.timed_out:
        return "the time limit was reached"
    return "the process ended without a report"


def _merge(report: Report, other: Report) -> None:
    """Add to *report* what *other*, a second audit of the same dataset, has more."""
    reported = {(finding.kind, finding.where) for finding in report.findings}
    for finding in other.findings:
        if (finding.kind, finding.where) not in reported:
            report.findings.append(finding)
    report.unconfirmed += other.unconfirmed
    report.tried += other.tried
    report.seconds += other.seconds


def _failed(options: Any, process: _Process) -> int:
    step, status = process.step, 3
    if process.signal:
        text = (
            f"{process.signal} ended the process while {step}, with one thread at a time, "
            f"so it is no race. "
        )
        text += f"The stacks:\n{process.stacks}"
    elif process.timed_out:
        stacks = process.stacks or "(no stacks: the interpreter did not answer)"
        text = f"not finished within --time-limit {options.time_limit:g} s, while {step}. "
        text += f"The stacks of its threads:\n{stacks}"
    elif process.answer:
        text = process.answer["error"]
        status = process.answer["status"]
    elif step == _STARTING:
        text = "the audit's process ended before it loaded the dataset; what it said is above"
    else:
        ways = "(os._exit()?), or closed the audit's descriptors"
        text = f"the dataset ended the process while {step} {ways}: it cannot be audited"
    if options.json:
        print_report(json.dumps({"error": text, "exit_status": status}, indent=1))
    _say(text)
    return status


def _crash_finding(options: Any, crash: _Process, crashes: list[_Process]) -> Finding:
    _, _, current = crash.stacks.partition("Current thread")
    innermost = re.search(r'File "(.+)", line (\d+)', current or crash.stacks)
    where = options.target
    if innermost:
        where = str(SourceLine(innermost[1], int(innermost[2])))
    signals = ", ".join(str(process.signal) for process in crashes)
    number = len(crashes)
    return kinds.make("crash", where, crash=crash, number=number, signals=signals)


def _shorten(stacks: str, lines: int = 60) -> str:
    """Return up to *lines* lines of faulthandler's *stacks*,
    the current thread first, without the audit's frames.
    """
    kept = []
    for line in stacks.rstrip().splitlines():
        if line.strip() and not _is_foreign(line):
            kept.append(line)
    kept = _without_empty_threads(kept)
    current = _number_of_current(kept)
    kept = kept[:1] + kept[current:] + kept[1:current]  # the thread that crashed comes first
    if len(kept) > lines:
        kept = [*kept[:lines], "..."]
    return "\n".join(kept)


def _number_of_current(lines: list[str]) -> int:
    """Return the number of the line that begins the current thread; 0 if there is none."""
    for number, line in enumerate(lines):
        if line.startswith("Current thread"):
            return number
    return 0


def _is_foreign(line: str) -> bool:
    """True if *line* is a frame of the audit or of Python's own modules."""
    audit = os.path.join(os.path.dirname(__file__), "")
    foreign = (audit, "/threading.py", '"<frozen runpy>"', "Extension modules:")
    return any(place in line for place in foreign)


def _without_empty_threads(lines: list[str]) -> list[str]:
    """Drop the threads without frames: these were waiting, or in the audit's own code."""
    kept = []
    for line, after in zip(lines, [*lines[1:], ""]):
        is_title = line.startswith(("Thread 0x", "Current thread 0x"))
        if not is_title or after.startswith("  "):
            kept.append(line)
    return kept


def _say(text: str) -> None:
    print(f"{NAME}: {terminal(text)}", file=sys.stderr, flush=True)
