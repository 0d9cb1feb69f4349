"""Classification of an ended process tree: its exit status, output,
stacks and messages give the run's outcome.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from ftrun import gil
from ftrun.escape import terminal
from ftrun.project import ROOT
from ftrun.protocol import conforms, decode
from ftrun.supervise import signal_name
from ftsafety.repro.outcome import (
    COMPUTING,
    LONGEST_NAME,
    MOST_MODULES,
    MOST_NOTES,
    Blocker,
    Kind,
    Outcome,
    Signature,
)
from ftsafety.repro.watch import Ended

# Exceptions by which Python reports a limit, and what the limit is.
OF_THE_KERNEL = (
    (
        re.compile(
            r"^RuntimeError: can't start new thread|^BlockingIOError: \[Errno 11\] Resource "
            r"temporarily"
        ),
        "no further thread or process could be started (ulimit -u, or pids_limit in "
        "compose.yaml, raises the limit)",
    ),
    (
        re.compile(r"^OSError: \[Errno (27|28|122)\]|^SIGXFSZ$"),
        "a file grew too large, or the scratch folder is full (--disk raises the limit)",
    ),
)
# Python's message about an exception that no code caught, and the last line of its traceback.
UNSEEN = re.compile(
    r"^(Exception ignored (?:in|on)|Exception in thread|(?:Task|Future) exception was never "
    r"retrieved)\b.*"
    r"(?:\n[ \t].*|\nTraceback .*|\nfuture: .*|\ntask: .*)*\n?(\w[\w.]*(?:: .*)?)?$",
    re.MULTILINE,
)
# The part of a path in a traceback that depends on the machine.
INSTALLED = re.compile(r'(?<=File ")[^"\n]*/(lib/python3\.\d+t?/)(site-packages/)?')
RUNNER = re.compile(r'^  File "[^"\n]*ftsafety/repro/runner\.py", line .*\n?', re.MULTILINE)
THREAD = re.compile(r"^(Current thread|Thread) 0x.*\n((?:  .*\n?)*)", re.MULTILINE)
FRAME = re.compile(r'^  File "([^"\n]*)", line (\d+) in (.+)$', re.MULTILINE)
MOST_FRAMES = 3
# Written by a child process, whose own exception the script does not see.
CHILD_LACKS = re.compile(r"^ModuleNotFoundError: No module named '(\w+)'", re.MULTILINE)
USAGE = re.compile(r"\s*(usage: .+)", re.IGNORECASE)
# The messages of ftsafety.repro.runner.
FORMS: tuple[dict[str, object], ...] = (
    {"begin": bool, "gil": bool},
    {
        "end": bool,
        "gil": bool,
        "modules": [str],
        "memory": int,
        "raced": bool,
        "asked": bool,
        "idle": bool,
        "unmatched": [str],
    },
    {
        "exception": str,
        "kind": str,
        "place": str,
        "cause": str,
        "what": str,
        "thread": (str, type(None)),
    },
    {"future": str},
)
# Causes for which an exit with status 0 is a blocked run, and not a success.
GUARDS = ("gil", "version", "arguments", "tests")


def printable(data: bytes, hidden: Sequence[str] = ()) -> str:
    """Return *data* as a string that is safe on a terminal.

    Shortens paths: removes the folders *hidden* and parts that depend on the machine; ~ stands for
    the home folder.
    """
    text = data.decode(errors="backslashreplace").replace("\r\n", "\n")
    for folder in hidden:
        text = text.replace(f"{folder}{os.sep}", "")
    # The rest is the same on all machines: "site-packages/PIL/Image.py",
    # "lib/python3.13t/threading.py".
    text = INSTALLED.sub(lambda match: match[2] or match[1], text)
    text = text.replace(f"{ROOT}{os.sep}", "ft-env/")
    home = os.path.expanduser("~")
    if len(home) > 1:
        text = text.replace(f"{home}{os.sep}", f"~{os.sep}")
    return terminal(text)


def classify(ended: Ended, hidden: Sequence[str] = ()) -> Outcome:
    """Return the outcome of the process tree in which ftsafety.repro.runner ran a script.
    *hidden*: see `printable`.
    """
    messages = Messages(ended, hidden)
    end = messages.end
    stdout = printable(ended.stdout.text(), hidden)
    stderr = printable(ended.stderr.text(), hidden)
    stacks = RUNNER.sub("", printable(ended.stacks.text(), hidden))
    kind, detail = _kind(ended, messages, stderr)
    signatures = tuple(_signatures(kind, detail, messages, stacks, ended))
    if culprit := _gil_enabled(messages, stderr):
        if kind is not Kind.OK:
            culprit += f"; the run then came to: {kind} ({detail})"
        kind, detail = Kind.GIL, culprit
    outcome = Outcome(kind, detail, ended.seconds, stdout, stderr, stacks)
    outcome.notes = tuple(_notes(ended))
    outcome.signatures = signatures
    outcome.memory = ended.memory
    noticed = [*_noticed(kind, messages, stderr), *_unmatched(end)]
    outcome.noticed = tuple(noticed[:MOST_NOTES])
    if end:
        modules = end["modules"][:MOST_MODULES]
        outcome.modules = tuple(name[:LONGEST_NAME] for name in modules)
        outcome.memory = max(ended.memory, end["memory"])
    outcome.blocker = _lacking(kind, end) or _blocker(kind, messages, stderr)
    return outcome


class Messages:
    """The messages of ftsafety.repro.runner about a run.
    Other lines in the pipe are skipped: the script can write them.
    """

    def __init__(self, ended: Ended, hidden: Sequence[str]):
        self.begin: dict | None = None
        self.end: dict | None = None
        """The first and the last message; None if they did not come."""
        self.raised: list[dict] = []
        """Messages about exceptions, with those that ended the script on purpose (SystemExit)."""
        self.futures: list[str] = []
        """Exceptions of futures that the script never read, in words."""
        for line in ended.status.text().splitlines():
            message = _message(line, hidden)
            if message is not None:
                self._add(message)

    def _add(self, message: dict) -> None:
        if "exception" in message:
            self.raised.append(message)
        elif "future" in message:
            self.futures.append(message["future"])
        elif message.get("begin"):
            self.begin = self.begin or message
        elif message.get("end"):
            self.end = self.end or message

    @property
    def failures(self) -> list[dict]:
        """Messages about exceptions that are failures."""
        return [message for message in self.raised if message["kind"] != "SystemExit"]

    @property
    def exit_at(self) -> str:
        """The place where the script first ended itself; "" if it did not."""
        for message in self.raised:
            if message["kind"] == "SystemExit":
                return message["place"]
        return ""

    @property
    def raced(self) -> bool:
        """False if the script surely never had threads."""
        return self.end is None or self.end["raced"]


def _gil_enabled(messages: Messages, stderr: str) -> str:
    """Return in words what turned the GIL on; "" if it stayed off, or was on from the start."""
    if messages.begin is None or messages.begin["gil"]:
        return ""
    if warned := gil.MESSAGE.search(stderr):
        return f"importing {warned[1]} turned the GIL on"
    if messages.end and messages.end["gil"]:
        return "something turned the GIL on"
    return ""


def _message(line: bytes, hidden: Sequence[str]) -> dict | None:
    """Return the message in a line of the pipe, with printable strings; None for other lines."""
    with contextlib.suppress(ValueError):
        value = decode(line)
        if isinstance(value, dict) and _conforms_to_any(value):
            message = {key: _shown(content, hidden) for key, content in value.items()}
            patterns = message.get("unmatched", ())
            message["unmatched"] = [_shown(pattern, hidden) for pattern in patterns]
            return message
    return None


def _conforms_to_any(value: dict) -> bool:
    return any(set(value) == set(form) and conforms(value, form) for form in FORMS)


def _shown(value: object, hidden: Sequence[str]) -> Any:
    """Return a value of a message; a string is made printable, and cut."""
    if isinstance(value, str):
        return printable(value.encode(errors="backslashreplace"), hidden)[:1000]
    return value


def _kind(ended: Ended, messages: Messages, stderr: str) -> tuple[Kind, str]:
    """Return how a run ended, and the detail in words."""
    if ended.limit:
        return Kind.LIMIT, ended.limit
    if ended.timed_out:
        return Kind.HANG, _hang(ended)
    if messages.begin is None:
        last = _last_line(stderr) or "it wrote nothing"
        return Kind.ERROR, f"the interpreter did not reach the script: {last}"
    failures = messages.failures
    if limit := _limit(ended, failures):
        return Kind.LIMIT, limit
    if ended.returncode < 0:
        return Kind.SIGNAL, signal_name(-ended.returncode)
    if failures:
        return Kind.EXCEPTION, _failure(failures[0])
    if ended.returncode:
        return Kind.WRONG, _exit_status(ended)
    return Kind.OK, ""


def _hang(ended: Ended) -> str:
    detail = COMPUTING if ended.computing else "did not end in time"
    if ended.ignored_sigterm:
        detail += " and ignored SIGTERM"
    return detail


def _last_line(text: str) -> str:
    return "".join(text.strip().splitlines()[-1:])[:300]


def _failure(message: dict) -> str:
    thread = message["thread"]
    return f"{message['exception']} in {thread}" if thread else message["exception"]


def _exit_status(ended: Ended) -> str:
    return f"exit status {ended.returncode}"


def _limit(ended: Ended, failures: list[dict]) -> str | None:
    """Return in words which limit of the kernel (memory, processes, file size) ended the script;
    None if none did.
    """
    if ended.returncode == -signal.SIGKILL and ended.killed:
        return (
            "the kernel killed it for want of memory: the machine's, or the container's "
            "(mem_limit in compose.yaml)"
        )
    end = ""
    if ended.returncode < 0:
        end = signal_name(-ended.returncode)
    elif failures:
        end = failures[0]["exception"]
    for pattern, words in OF_THE_KERNEL:
        if pattern.search(end):
            return words
    return None


def _signatures(
    kind: Kind, detail: str, messages: Messages, stacks: str, ended: Ended
) -> Iterator[Signature]:
    """Yield the signature of the signal, hang or exit that ended a run,
    then the signatures of its exceptions.
    """
    exit_at = messages.exit_at
    if kind is Kind.SIGNAL:
        yield Signature(kind, detail, _place_of_signal(stacks))
    elif kind is Kind.HANG:
        name = COMPUTING if ended.computing else "hang"
        yield Signature(kind, name, _place_of_hang(stacks))
    elif kind is Kind.WRONG:
        yield Signature(kind, detail, exit_at)
    exceptions: dict[Signature, None] = {}
    for message in messages.failures:
        exceptions[Signature(Kind.EXCEPTION, message["kind"], message["place"])] = None
    yield from list(exceptions)[: MOST_NOTES - 2]
    if kind is Kind.EXCEPTION and ended.returncode and exit_at:  # the exception was a thread's
        yield Signature(Kind.WRONG, _exit_status(ended), exit_at)


def _place_of_signal(stacks: str) -> str:
    """Return the innermost frames of the thread that the signal ended."""
    for heading, frames in THREAD.findall(stacks):
        if heading == "Current thread":
            return " < ".join(_frames(frames)[:MOST_FRAMES])
    return ""


def _place_of_hang(stacks: str) -> str:
    """Return the innermost frame of each of the first threads."""
    innermost: list[str] = []
    for _, frames in THREAD.findall(stacks):
        innermost += _frames(frames)[:1]
    return "; ".join(dict.fromkeys(innermost[:MOST_FRAMES]))


def _frames(stack: str) -> list[str]:
    """Return the frames of a thread, without those of the import system."""
    frames = []
    for name, line, function in FRAME.findall(stack):
        if not name.startswith("<frozen "):
            frames.append(f"{os.path.basename(name)}:{line} in {function}")
    return frames


def _lacking(kind: Kind, end: dict | None) -> Blocker | None:
    """Return the input that a run without a failure lacked,
    so that it did nothing; None if it lacked none.

    *end*: the runner's last message.
    """
    if kind is not Kind.OK or end is None:
        return None
    if end["asked"] and not end["raced"]:
        return Blocker("stdin", "", "script")
    if end["idle"] and end["unmatched"]:
        return Blocker("listing", end["unmatched"][0], "script")
    return None


def _blocker(kind: Kind, messages: Messages, stderr: str) -> Blocker | None:
    """Return why a run may have been blocked."""
    if kind not in (Kind.OK, Kind.WRONG, Kind.EXCEPTION):
        return None
    first = messages.raised[0] if messages.raised else None
    if first and kind is Kind.EXCEPTION and first["kind"] == "CalledProcessError":
        return _child_lacks(stderr)
    if first and first["cause"]:
        return _cause(kind, first, stderr)
    if kind is Kind.WRONG and not messages.raced:
        return _usage(stderr)
    return None


def _cause(kind: Kind, message: dict, stderr: str) -> Blocker | None:
    """Return the cause that the runner tells of an exception."""
    cause = message["cause"]
    detail = message["what"]
    if kind is Kind.OK and cause not in GUARDS:
        return None
    if cause == "arguments" and not detail:  # a parser's message
        detail = _last_line(stderr)
    return Blocker(cause, detail, "part" if message["thread"] else "script")


def _child_lacks(stderr: str) -> Blocker | None:
    """Return the package that a child process of the script lacks."""
    for name in CHILD_LACKS.findall(stderr):
        if name not in sys.stdlib_module_names:
            return Blocker("module", name, "script")
    return None


def _usage(stderr: str) -> Blocker | None:
    """Return that arguments are missing if the script,
    such as by sys.exit(main()), has printed its usage.
    """
    usage = USAGE.match(stderr)
    return Blocker("arguments", usage[1][:300], "script") if usage else None


def _noticed(kind: Kind, messages: Messages, stderr: str) -> list[str]:
    """Return the exceptions that do not count as failures,
    such as one in a destructor, each only once.
    """
    exceptions = []
    for future in messages.futures:
        exceptions.append(f"an exception of a future that nothing asked for: {future}")
    exceptions += _uncaught(kind, stderr)
    # If threads print at once, messages may be cut.
    # A cut message is dropped if the whole one is there too.
    whole = {text.partition(":")[0] for text in exceptions if ":" in text}
    return [text for text in dict.fromkeys(exceptions) if text not in whole][:MOST_NOTES]


def _uncaught(kind: Kind, stderr: str) -> Iterator[str]:
    """Yield the exceptions in Python's messages about those that no code caught."""
    for start, exception in UNSEEN.findall(stderr):
        if kind is Kind.EXCEPTION and start == "Exception in thread":
            continue  # that is the failure
        yield f"{start}: {exception}" if exception else start


def _unmatched(end: dict | None) -> Iterator[str]:
    """Yield a sentence for each pattern that matched no file, if the script did other work.

    *end*: the runner's last message.
    """
    if end is None or end["idle"]:
        return
    for pattern in end["unmatched"]:
        yield f"no file matched {pattern}: --with puts files beside the script"


def _notes(ended: Ended) -> Iterator[str]:
    if ended.left_behind:
        yield f"left {ended.left_behind} processes behind, which were killed"
    if ended.unkillable:
        yield f"{ended.unkillable} processes could not be killed"
    written = ended.stdout.total + ended.stderr.total
    kept = len(ended.stdout.text()) + len(ended.stderr.text())
    if written > kept:
        yield f"of {written} bytes of output only the beginning and the end were kept"
