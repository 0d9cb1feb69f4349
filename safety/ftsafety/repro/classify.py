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
    messages = _messages(ended, hidden)
    begin, end = _first(messages, "begin"), _first(messages, "end")
    raised = [line for line in messages if "exception" in line]
    streams = (ended.stdout, ended.stderr, ended.stacks)
    stdout, stderr, stacks = (printable(stream.text(), hidden) for stream in streams)
    stacks = RUNNER.sub("", stacks)
    failures = [line for line in raised if line["kind"] != "SystemExit"]
    kind, detail = _kind(ended, begin, failures, stderr)
    signatures = tuple(_signatures(kind, detail, raised, stacks, ended))
    if begin and not begin["gil"] and (culprit := _gil_enabled(end, stderr)):
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
        outcome.modules = tuple(name[:LONGEST_NAME] for name in end["modules"][:MOST_MODULES])
        outcome.memory = max(ended.memory, end["memory"])
    raced = end is None or end["raced"]
    outcome.blocker = _lacking(kind, end) or _blocker(kind, raised, stderr, raced)
    return outcome


def _first(messages: list[dict], key: str) -> dict | None:
    """Return the first message in which *key* is true."""
    for message in messages:
        if message.get(key):
            return message
    return None


def _gil_enabled(end: dict | None, stderr: str) -> str:
    """Return in words what turned the GIL on; "" if it stayed off.
    *end*: the runner's last message.
    """
    if warned := gil.MESSAGE.search(stderr):
        return f"importing {warned[1]} turned the GIL on"
    return "something turned the GIL on" if end and end["gil"] else ""


def _messages(ended: Ended, hidden: Sequence[str]) -> list[dict]:
    """Return the messages of ftsafety.repro.runner. Other lines in the pipe are skipped: the script
    can write them.
    """
    texts = dict.fromkeys(("exception", "kind", "place", "cause", "what"), str)
    observations = {"raced": bool, "asked": bool, "idle": bool, "unmatched": [str]}
    forms: tuple[dict[str, object], ...] = (
        {"begin": bool, "gil": bool},
        {"end": bool, "gil": bool, "modules": [str], "memory": int, **observations},
        {**texts, "thread": (str, type(None))},
        {"future": str},
    )
    messages = []
    for line in ended.status.text().splitlines():
        with contextlib.suppress(ValueError):
            value = decode(line)
            if isinstance(value, dict) and _conforms_to_any(value, forms):
                message = {key: _shown(content, hidden) for key, content in value.items()}
                if "unmatched" in value:
                    message["unmatched"] = [
                        _shown(pattern, hidden) for pattern in value["unmatched"]
                    ]
                messages.append(message)
    return messages


def _conforms_to_any(value: dict, forms: Sequence[dict[str, object]]) -> bool:
    return any(set(value) == set(form) and conforms(value, form) for form in forms)


def _shown(value: object, hidden: Sequence[str]) -> object:
    """Return a value of a message; a string is made printable, and cut."""
    if isinstance(value, str):
        return printable(value.encode(errors="backslashreplace"), hidden)[:1000]
    return value


def _kind(ended: Ended, begin: dict | None, failures: list[dict], stderr: str) -> tuple[Kind, str]:
    if ended.limit:
        return Kind.LIMIT, ended.limit
    if ended.timed_out:
        detail = COMPUTING if ended.computing else "did not end in time"
        return Kind.HANG, detail + (" and ignored SIGTERM" if ended.ignored_sigterm else "")
    if begin is None:
        last = stderr.strip().splitlines()[-1:] or ["it wrote nothing"]
        return Kind.ERROR, f"the interpreter did not reach the script: {last[0][:300]}"
    if limit := _limit(ended, failures):
        return Kind.LIMIT, limit
    if ended.returncode < 0:
        return Kind.SIGNAL, signal_name(-ended.returncode)
    if failures:
        first = failures[0]
        return Kind.EXCEPTION, first["exception"] + (
            f" in {first['thread']}" if first["thread"] else ""
        )
    if ended.returncode:
        return Kind.WRONG, f"exit status {ended.returncode}"
    return Kind.OK, ""


def _limit(ended: Ended, failures: list[dict]) -> str | None:
    """Return in words which limit of the kernel (memory, processes, file size) ended the script;
    None if none did.
    """
    if ended.returncode == -signal.SIGKILL and ended.killed:
        return (
            "the kernel killed it for want of memory: the machine's, or the container's "
            "(mem_limit in compose.yaml)"
        )
    end = failures[0]["exception"] if failures else ""
    if ended.returncode < 0:
        end = signal_name(-ended.returncode)
    return next((words for pattern, words in OF_THE_KERNEL if pattern.search(end)), None)


def _signatures(
    kind: Kind, detail: str, raised: list[dict], stacks: str, ended: Ended
) -> Iterator[Signature]:
    """Yield the signature of the signal, hang or exit that ended a run,
    then the signatures of its exceptions.
    """
    exits = [message["place"] for message in raised if message["kind"] == "SystemExit"]
    exit_at = exits[0] if exits else ""
    if kind is Kind.SIGNAL:
        yield Signature(kind, detail, " < ".join(_frames(stacks, "Current thread")[:MOST_FRAMES]))
    elif kind is Kind.HANG:
        innermost: list[str] = []
        for match in THREAD.finditer(stacks):
            innermost += _frames(match[0])[:1]
        name = COMPUTING if ended.computing else "hang"
        yield Signature(kind, name, "; ".join(dict.fromkeys(innermost[:MOST_FRAMES])))
    elif kind is Kind.WRONG:
        yield Signature(kind, detail, exit_at)
    exceptions: dict[Signature, None] = {}
    for message in raised:
        if message["kind"] != "SystemExit":
            exceptions[Signature(Kind.EXCEPTION, message["kind"], message["place"])] = None
    yield from list(exceptions)[: MOST_NOTES - 2]
    if kind is Kind.EXCEPTION and ended.returncode and exit_at:  # the exception was a thread's
        yield Signature(Kind.WRONG, f"exit status {ended.returncode}", exit_at)


def _frames(stacks: str, which: str = "") -> list[str]:
    """Return the frames of the first thread in *stacks* whose heading starts with *which*.

    Frames of the import system are left out.
    """
    thread = next((match[2] for match in THREAD.finditer(stacks) if match[1].startswith(which)), "")
    return [
        f"{os.path.basename(name)}:{line} in {function}"
        for name, line, function in FRAME.findall(thread)
        if name[:8] != "<frozen "
    ]


def _lacking(kind: Kind, end: dict | None) -> Blocker | None:
    """Return the input that a run without a failure lacked,
    so that it did nothing; None if it lacked none.

    *end*: the runner's last message.
    """
    if kind is not Kind.OK or end is None:
        return None
    if end["asked"] and not end["raced"]:
        return Blocker("stdin", "", "script")
    return (
        Blocker("listing", end["unmatched"][0], "script")
        if end["idle"] and end["unmatched"]
        else None
    )


def _blocker(kind: Kind, raised: list[dict], stderr: str, raced: bool) -> Blocker | None:
    """Return why a run may have been blocked. *raced*: it had threads."""
    first = raised[0] if raised else None
    if kind is Kind.EXCEPTION and first and first["kind"] == "CalledProcessError":
        return _child_lacks(stderr)
    if kind not in (Kind.OK, Kind.WRONG, Kind.EXCEPTION):
        return None
    if not first or not first["cause"]:
        return _usage(stderr) if kind is Kind.WRONG and not raced else None
    cause, detail = first["cause"], first["what"]
    if kind is Kind.OK and cause not in GUARDS:
        return None
    if cause == "arguments" and not detail:  # a parser's message
        detail = "".join(stderr.strip().splitlines()[-1:])[:300]
    return Blocker(cause, detail, "part" if first["thread"] else "script")


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


def _noticed(kind: Kind, messages: list[dict], stderr: str) -> Iterator[str]:
    """Yield the exceptions that do not count as failures,
    such as one in a destructor, each only once.
    """
    exceptions = [
        f"an exception of a future that nothing asked for: {message['future']}"
        for message in messages
        if "future" in message
    ]
    for match in UNSEEN.finditer(stderr):
        if not (kind is Kind.EXCEPTION and match[1] == "Exception in thread"):
            # that is the failure
            exceptions.append(f"{match[1]}: {match[2]}" if match[2] else match[1])
    # If threads print at once, messages may be cut.
    # A cut message is dropped if the whole one is there too.
    whole = {text.partition(":")[0] for text in exceptions if ":" in text}
    yield from [text for text in dict.fromkeys(exceptions) if text not in whole][:MOST_NOTES]


def _unmatched(end: dict | None) -> Iterator[str]:
    """Yield a sentence for each pattern that matched no file, if the script did other work.

    *end*: the runner's last message.
    """
    for pattern in end["unmatched"] if end and not end["idle"] else ():
        yield f"no file matched {pattern}: --with puts files beside the script"


def _notes(ended: Ended):
    if ended.left_behind:
        yield f"left {ended.left_behind} processes behind, which were killed"
    if ended.unkillable:
        yield f"{ended.unkillable} processes could not be killed"
    dropped = (
        ended.stdout.total
        + ended.stderr.total
        - len(ended.stdout.text())
        - len(ended.stderr.text())
    )
    if dropped > 0:
        yield (
            f"of {ended.stdout.total + ended.stderr.total} bytes of output only the "
            f"beginning and the end were kept"
        )
