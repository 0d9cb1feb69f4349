"""Outcomes of runs, and their kinds and failure signatures."""

from __future__ import annotations

import enum
import itertools
from dataclasses import asdict, dataclass
from typing import NamedTuple

from ftrun.protocol import conforms


class Kind(enum.StrEnum):
    """Kinds of outcomes: the ways in which a run can end. Reports show the values."""

    OK = "ok"
    OUTLASTED = "no failure in time"
    WRONG = "wrong result"
    EXCEPTION = "exception"
    SIGNAL = "signal"
    HANG = "hang"
    GIL = "GIL enabled"
    LIMIT = "limit"
    BLOCKED = "did not begin"
    ERROR = "not run"

    @property
    def failed(self) -> bool:
        """True if the run counts as a failure of the script."""
        return self in SEVERITY

    @property
    def judged(self) -> bool:
        """True if the run is a success or a failure. Others (a limit,
        a blocked run, ...) do not count.
        """
        return self in (Kind.OK, Kind.OUTLASTED) or self.failed


COMPUTING = "still computing at the time limit"
"""The name in the signature of a HANG of a process tree that used the processor until the end: it
may just be slow.
"""

SEVERITY = (Kind.WRONG, Kind.EXCEPTION, Kind.HANG, Kind.SIGNAL)
"""Kinds of failure, from the mildest. A run that ends with one
of them cannot show a milder one later.
"""


class Signature(NamedTuple):
    """Signature of a failure: kind, name and place. Failures with equal signatures are treated as
    the same bug.
    """

    kind: str
    what: str
    """The name of the signal, the type of the exception, "exit status N", "hang" or COMPUTING."""
    place: str = ""
    """The innermost places in the code; empty if they are not known."""


class Blocker(NamedTuple):
    """Reason why a run may have been blocked (ftsafety.repro.blocked): its cause, and the missing
    or wrong thing.
    """

    cause: str
    about: str
    ended: str = "script"
    """The part that the cause ended: "script", or "part" for a thread or a test after which the
    script ran on.
    """


MOST_MODULES = 2000
LONGEST_NAME = 100
MOST_NOTES = 10
LONGEST_LINE = 1000
LONGEST_TEXT = 1 << 20


@dataclass
class Outcome:
    """Outcome of one run. All strings are printable, whatever the script wrote."""

    kind: Kind
    detail: str
    """In words: "exit status 3", "SIGSEGV", "ValueError: ...", the module that enabled the GIL."""
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""
    stacks: str = ""
    """The stacks that faulthandler dumped, at a fatal signal or at the time limit."""
    modules: tuple[str, ...] = ()
    """Top-level modules that the script has imported;
    empty if Python did not shut down normally.
    """
    notes: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    """The signatures of all failures in the run. The first is the failure that ended the run."""
    blocker: Blocker | None = None
    memory: int = 0
    """Peak memory in bytes, as far as it was measured."""
    noticed: tuple[str, ...] = ()
    """Events that do not count as failures, such as an exception in a destructor."""
    node: str = ""
    """The node of the cluster that made the run; empty if it was made on this machine."""

    def as_json(self) -> dict:
        values = asdict(self)
        values["kind"] = self.kind.value
        values["blocker"] = list(self.blocker or ())
        del values["node"]  # the receiver knows whom it has asked
        return values


_LONGEST = {
    "detail": LONGEST_LINE,
    "stdout": LONGEST_TEXT,
    "stderr": LONGEST_TEXT,
    "stacks": LONGEST_TEXT,
}
FORM = {
    **dict.fromkeys(_LONGEST, str),
    "kind": str,
    "seconds": (int, float),
    "modules": [str],
    "notes": [str],
    "signatures": [[str]],
    "blocker": [str],
    "memory": int,
    "noticed": [str],
}
"""The schema of `as_json`, for ftrun.protocol.conforms."""


def from_json(values: dict) -> Outcome:
    """Return the Outcome of *values*, which `as_json` made.
    Cut its long strings; raises ValueError if invalid.
    """
    if not conforms(values, FORM) or not _whole(values):
        raise ValueError("not an outcome")
    modules = values["modules"][:MOST_MODULES]
    signatures = map(_lines, values["signatures"][:MOST_NOTES])
    blocker = _lines(values["blocker"])
    return Outcome(
        Kind(values["kind"]),
        seconds=values["seconds"],
        modules=tuple(name[:LONGEST_NAME] for name in modules),
        notes=_lines(values["notes"]),
        signatures=tuple(itertools.starmap(Signature, signatures)),
        blocker=Blocker(*blocker) if blocker else None,
        memory=values["memory"],
        noticed=_lines(values["noticed"]),
        **{name: values[name][:most] for name, most in _LONGEST.items()},
    )


def _whole(values: dict) -> bool:
    """Return True if the kind, the signatures and the blocker are valid."""
    return (
        values["kind"] in set(Kind)
        and all(map(_is_signature, values["signatures"]))
        and len(values["blocker"]) in (0, len(Blocker._fields))
    )


def _is_signature(fields: list[str]) -> bool:
    return len(fields) == len(Signature._fields) and fields[0] in SEVERITY


def _lines(texts: list[str]) -> tuple[str, ...]:
    return tuple(text[:LONGEST_LINE] for text in texts[:MOST_NOTES])
