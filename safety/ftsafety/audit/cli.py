"""``python -m ftsafety.audit``: run the audit in a child process, so that a crash or a hang ends in a report."""

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
from ftsafety.audit.arguments import check
from ftsafety.audit.empty_copies import NAMESPACES, CopyError, check_namespaces
from ftsafety.audit.report import ABSENT, FORM, Finding, Line, Report

_GRACE = 2.0
"""Seconds to wait for the process to end by itself after it has sent its report or error."""
_KEPT = 256 * 1024
"""Number of bytes to keep of the start of the dumped stacks, and again of their end."""
_FAULTS = {"SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP"}
"""Signals by which a process itself ends at a fault of its own."""
_STARTING = "starting"
"""The value of `step` until the process sends its first message."""


class _Process:
    """Child process that runs the audit. Its messages are checked, since the dataset can write to the same pipe."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] | None = None
        """The report or error that the process sent."""
        self.step, self.threads, self.closed = _STARTING, False, False
        """`step`: the last reported step; `threads`: True if it uses threads; `closed`: True if the pipe has ended."""
        self.signal: str | None = None
        """The signal that ended the process within the time limit; None if no signal did."""
        self.stacks, self.timed_out = "", False
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Handle the messages in *data*, bytes from the child's pipe. Empty *data* means that the pipe was closed."""
        self.closed = not data or len(self._rest) > LONGEST_LINE
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, TypeError):  # the dataset wrote this line
                message: Any = decode(line)
                if conforms(message, {"progress": str, "threads": bool}):
                    self.step, self.threads = message["progress"], message["threads"]
                    _say(self.step)
                elif conforms(message, {"error": str, "status": int}) and message["status"] in (2, 3):
                    self.answer = message
                elif conforms(message, {"report": FORM}):
                    Report.from_dict(message["report"])
                    self.answer = message

    def run(self, options: Any, deadline: float, interruption: Interruption, memory: str = "") -> None:
        """Run the audit with *options*, until *deadline* (time.monotonic()) at the latest. A signal raises Stopped.

        *memory*: an empty folder for the audit without files that loading writes; "" for the usual audit.
        """
        watch = {interruption.fileno(): interruption.wanted}
        program = [*(NAMESPACES if memory else ()), *command(sys.executable, "ftsafety.audit.child")]
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
            self.timed_out = not child.listen(watch, deadline - time.monotonic(), lambda: self.closed)
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
    crashes: list[_Process] = []
    try:
        with Interruption() as interruption:
            for _ in range(2):
                process = _Process()
                process.run(options, deadline, interruption)
                if not process.signal:
                    break
                crashes.append(process)
                if len(crashes) == 1:
                    _say(f"the audit's process was ended by {process.signal}; a second look")
            answer = process.answer or {}
            report = Report.from_dict(answer["report"]) if "report" in answer else None
            if report and ABSENT in report.cannot:
                _audit_without_files(report, options, deadline, interruption)
    except Stopped:
        _say("interrupted; nothing is left running")
        return 128 + interruption.signum
    seconds = time.monotonic() - begin
    # A fault under threads is a finding though it came once. Other signals, such as SIGKILL, may come from elsewhere.
    crash = next((each for each in crashes if each.threads and (len(crashes) > 1 or each.signal in _FAULTS)), None)
    if report:
        report.unconfirmed += [
            f"the process was ended by {each.signal} while {each.step}, but not in a second run. "
            f"The stacks:\n{each.stacks}"
            for each in crashes
            if each is not crash
        ]
    elif crash:
        report = Report(options.target, f"{gil.describe()}; {options.threads} threads", seconds=seconds)
        report.tried.append("the audit in two processes, neither of which came to its end")
        report.cannot.append("anything else: fix the crash, and audit again")
    else:
        return _failed(options, process)
    if crash:
        report.findings.append(_crash_finding(options, crash, crashes))
    print_report(json.dumps(report.to_dict(), indent=1) if options.json else terminal(str(report)))
    return 0 if report.ok else 1


def _audit_without_files(report: Report, options: Any, deadline: float, interruption: Interruption) -> None:
    """Audit again without the files that loading writes where they are absent; add the outcome to *report*."""
    process = _Process()
    try:
        check_namespaces()
        with tempfile.TemporaryDirectory() as memory:
            process.run(options, deadline, interruption, memory)
        silent = "the time limit was reached" if process.timed_out else "the process ended without a report"
        answer: dict[str, Any] = process.answer or {"error": silent}
    except (CopyError, OSError) as error:
        answer = {"error": str(error)}
    if process.signal:
        report.unconfirmed.append(f"the process was ended by {process.signal} while {process.step}:\n{process.stacks}")
    elif "error" in answer:
        why = answer["error"].strip().splitlines()[-1]
        report.cannot[report.cannot.index(ABSENT)] = f"{ABSENT} (the audit could not try it here: {why})"
    else:
        other = Report.from_dict(answer["report"])
        known = {(finding.kind, finding.where) for finding in report.findings}
        report.findings += [finding for finding in other.findings if (finding.kind, finding.where) not in known]
        report.unconfirmed += other.unconfirmed
        report.tried += other.tried
        report.seconds += other.seconds
        report.cannot.remove(ABSENT)


def _failed(options: Any, process: _Process) -> int:
    step, status = process.step, 3
    if process.signal:
        text = f"{process.signal} ended the process while {step}, with one thread at a time, so it is no race. "
        text += f"The stacks:\n{process.stacks}"
    elif process.timed_out:
        stacks = process.stacks or "(no stacks: the interpreter did not answer)"
        text = f"not finished within --time-limit {options.time_limit:g} s, while {step}. "
        text += f"The stacks of its threads:\n{stacks}"
    elif process.answer:
        text, status = process.answer["error"], process.answer["status"]
    elif step == _STARTING:
        text = "the audit's process ended before it loaded the dataset; what it said is above"
    else:
        how = "(os._exit()?), or closed the audit's descriptors"
        text = f"the dataset ended the process while {step} {how}: it cannot be audited"
    if options.json:
        print_report(json.dumps({"error": text, "exit_status": status}, indent=1))
    _say(text)
    return status


def _crash_finding(options: Any, crash: _Process, crashes: list[_Process]) -> Finding:
    crashed = crash.stacks.partition("Current thread")[2] or crash.stacks
    named = re.search(r'File "(.+)", line (\d+)', crashed)
    where = str(Line(named[1], int(named[2]))) if named else options.target
    signals = ", ".join(str(each.signal) for each in crashes)
    return kinds.make("crash", where, crash=crash, number=len(crashes), signals=signals)


def _shorten(stacks: str, lines: int = 60) -> str:
    """Return up to *lines* lines of faulthandler's *stacks*, the current thread first, without the audit's frames."""
    foreign = (os.path.join(os.path.dirname(__file__), ""), "/threading.py", '"<frozen runpy>"', "Extension modules:")
    kept = [line for line in stacks.rstrip().splitlines() if line.strip() and not any(each in line for each in foreign)]
    threads = ("Thread 0x", "Current thread 0x")
    # A thread without frames was waiting, or in the audit's own code.
    kept = [
        line for line, after in zip(kept, [*kept[1:], ""]) if not line.startswith(threads) or after.startswith("  ")
    ]
    here = next((number for number, line in enumerate(kept) if line.startswith("Current thread")), 0)
    kept = kept[:1] + kept[here:] + kept[1:here]  # the thread that crashed comes first
    return "\n".join(kept[:lines] + ["..."] * (len(kept) > lines))


def _say(text: str) -> None:
    print(f"audit: {terminal(text)}", file=sys.stderr, flush=True)
