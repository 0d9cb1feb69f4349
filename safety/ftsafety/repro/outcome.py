"""How a run ended."""

from __future__ import annotations

import contextlib
import enum
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ftrun.escape import terminal
from ftrun.project import ROOT
from ftrun.protocol import conforms, decode
from ftrun.supervise import signal_name
from ftsafety.repro.watch import Ended


class Kind(enum.StrEnum):
    """How a run ended."""

    OK = "ok"
    WRONG = "wrong result"
    EXCEPTION = "exception"
    SIGNAL = "signal"
    HANG = "hang"
    GIL = "GIL enabled"
    LIMIT = "limit"
    ERROR = "not run"

    @property
    def failed(self) -> bool:
        """True if the run counts as a failure of the script."""
        return self in (Kind.WRONG, Kind.EXCEPTION, Kind.SIGNAL, Kind.HANG)

    @property
    def judged(self) -> bool:
        """True if the run counts in its configuration, as a failure or a success."""
        return self is Kind.OK or self.failed


GIL_WARNING = re.compile(
    r"global interpreter lock \(GIL\) has been enabled to load module '([^']+)', which has not declared"
)
# Exceptions by which Python reports a limit, and what the limit is.
OF_THE_KERNEL = (
    (
        re.compile(r"^RuntimeError: can't start new thread|^BlockingIOError: \[Errno 11\] Resource temporarily"),
        "no further thread or process could be started (ulimit -u, or pids_limit in compose.yaml, raises the limit)",
    ),
    (
        re.compile(r"^OSError: \[Errno (27|28|122)\]|^SIGXFSZ$"),
        "a file grew too large, or the scratch folder is full (--disk raises the limit)",
    ),
)
MOST_MODULES, LONGEST_NAME, MOST_NOTES, LONGEST_LINE, LONGEST_TEXT = 2000, 100, 10, 1000, 1 << 20

# The part of a path in a traceback that depends on the machine.
INSTALLED = re.compile(r'(?<=File ")[^"\n]*/(lib/python3\.\d+t?/)(site-packages/)?')


@dataclass
class Outcome:
    """The outcome of one run. Its texts are printable, whatever the script wrote."""

    kind: Kind
    detail: str
    """In words: "exit status 3", "SIGSEGV", "ValueError: ...", the module that enabled the GIL."""
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""
    stacks: str = ""
    """The stacks that faulthandler dumped, at a fatal signal or at the time limit."""
    modules: tuple[str, ...] = ()
    """Top-level modules that the script has imported; empty if there was no orderly end."""
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict:
        return {**asdict(self), "kind": self.kind.value}


_LONGEST = {"detail": LONGEST_LINE, "stdout": LONGEST_TEXT, "stderr": LONGEST_TEXT, "stacks": LONGEST_TEXT}
FORM = {**dict.fromkeys(_LONGEST, str), "kind": str, "seconds": (int, float), "modules": [str], "notes": [str]}
"""The form of `as_json` (ftrun.protocol.conforms)."""


def from_json(values: dict) -> Outcome:
    """Return the Outcome that `as_json` was called on, cut to a bounded size; raises ValueError for other *values*."""
    if not conforms(values, FORM):
        raise ValueError("not an outcome")
    modules = tuple(name[:LONGEST_NAME] for name in values["modules"][:MOST_MODULES])
    notes = tuple(note[:LONGEST_LINE] for note in values["notes"][:MOST_NOTES])
    texts = {name: values[name][:most] for name, most in _LONGEST.items()}
    return Outcome(Kind(values["kind"]), seconds=values["seconds"], modules=modules, notes=notes, **texts)


def printable(data: bytes, hidden: Sequence[str] = ()) -> str:
    """Return bytes as text that can be shown anywhere. Paths lose these folders, and the home."""
    text = data.decode(errors="backslashreplace").replace("\r\n", "\n")
    for folder in hidden:
        text = text.replace(f"{folder}{os.sep}", "")
    # The rest is the same on all machines: "site-packages/PIL/Image.py", "lib/python3.13t/threading.py".
    text = INSTALLED.sub(lambda match: match[2] or match[1], text)
    text = text.replace(f"{ROOT}{os.sep}", "ft-env/")
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = text.replace(f"{home}{os.sep}", f"~{os.sep}")
    return terminal(text)


def classify(ended: Ended, hidden: Sequence[str] = ()) -> Outcome:
    """Return the outcome of a process tree whose first process was ftsafety.repro.runner. `hidden`: as `printable`."""
    told = _told(ended)
    begin = next((line for line in told if line.get("begin")), None)
    end = next((line for line in told if line.get("end")), None)
    raised = next((line for line in told if "exception" in line), None)
    stderr = printable(ended.stderr.text(), hidden)
    kind, detail = _kind(ended, begin, raised, stderr, hidden)
    warned = GIL_WARNING.search(stderr)
    if begin and not begin["gil"] and (warned or (end and end["gil"])):
        then = "" if kind == Kind.OK else f"; the run then came to: {kind} ({detail})"
        module = f"importing {warned[1]} turned the GIL on" if warned else "something turned the GIL on"
        kind, detail = Kind.GIL, module + then
    stdout, stacks = (printable(stream.text(), hidden) for stream in (ended.stdout, ended.stacks))
    modules = tuple(name[:LONGEST_NAME] for name in end["modules"][:MOST_MODULES]) if end else ()
    return Outcome(kind, detail, ended.seconds, stdout, stderr, stacks, modules, tuple(_notes(ended)))


def _told(ended: Ended) -> list[dict]:
    """Return the messages of the runner. The script can write to the same pipe, so each line is checked."""
    forms: tuple[dict[str, object], ...] = (
        {"begin": bool, "gil": bool},
        {"end": bool, "gil": bool, "modules": [str]},
        {"exception": str, "thread": (str, type(None))},
    )
    found = []
    for line in ended.status.text().splitlines():
        with contextlib.suppress(ValueError):
            value = decode(line)
            found += [
                value for form in forms if isinstance(value, dict) and set(value) == set(form) and conforms(value, form)
            ]
    return found


def _kind(
    ended: Ended, begin: dict | None, raised: dict | None, stderr: str, hidden: Sequence[str]
) -> tuple[Kind, str]:
    if ended.limit:
        return Kind.LIMIT, ended.limit
    if ended.timed_out:
        return Kind.HANG, "did not end in time" + (" and ignored SIGTERM" if ended.ignored_sigterm else "")
    if begin is None:
        last = stderr.strip().splitlines()[-1:] or ["it wrote nothing"]
        return Kind.ERROR, f"the interpreter did not reach the script: {last[0][:300]}"
    if limit := _limit(ended, raised):
        return Kind.LIMIT, limit
    if ended.returncode < 0:
        return Kind.SIGNAL, signal_name(-ended.returncode)
    if raised:
        where = f" in {raised['thread']}" if raised["thread"] else ""
        return Kind.EXCEPTION, printable(f"{raised['exception']}{where}".encode(errors="backslashreplace"), hidden)
    if ended.returncode:
        return Kind.WRONG, f"exit status {ended.returncode}"
    return Kind.OK, ""


def _limit(ended: Ended, raised: dict | None) -> str | None:
    """Return the limit of the kernel that ended the script; None if none did."""
    if ended.returncode == -signal.SIGKILL and ended.killed:
        return "the kernel killed it for want of memory: the machine's, or the container's (mem_limit in compose.yaml)"
    said = "SIGXFSZ" if ended.returncode == -signal.SIGXFSZ else raised["exception"] if raised else ""
    return next((words for pattern, words in OF_THE_KERNEL if pattern.search(said)), None)


def _notes(ended: Ended):
    if ended.left_behind:
        yield f"left {ended.left_behind} processes behind, which were killed"
    if ended.unkillable:
        yield f"{ended.unkillable} processes could not be killed"
    dropped = ended.stdout.total + ended.stderr.total - len(ended.stdout.text()) - len(ended.stderr.text())
    if dropped > 0:
        yield f"of {ended.stdout.total + ended.stderr.total} bytes of output only the beginning and the end were kept"
