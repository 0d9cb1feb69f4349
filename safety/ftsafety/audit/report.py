"""The report of an audit, as text and as JSON."""

import dataclasses
import enum
import linecache
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ftrun.escape import one_line


class Level(enum.StrEnum):
    """Severity of a finding, from grave to harmless."""

    PROBLEM = "problem"
    """Wrong results, exceptions, hangs, or code that leads to them and was seen to run."""
    RISK = "risk"
    """Several threads write the same object without a lock.
    Whether that does harm depends on the dataset.
    """
    NOTE = "note"
    """Nothing to fix, but good to know."""


SYMPTOMS = frozenset({"results-differ", "exception", "ignored-exception", "hang", "crash"})
"""Kinds of findings that name an effect, not its cause."""
CURED_BY_COPIES = SYMPTOMS | {
    *("unguarded-write", "lost-update", "file-position", "shared-array", "shared-view"),
    "decoded-late",
}
"""Kinds of findings that a copy of the dataset for each thread may cure."""
ABSENT = (
    "what loading does while a file is absent that it would write then, such as a cache's: to try "
    "it, audit with an empty folder in place of the one that holds such files"
)
"""What an audit cannot say if loading reads files that it may have written in an earlier run."""
VERSION = 1
_TEXTS = dict.fromkeys(("kind", "level", "title", "where", "what", "remedy", "seen"), str)
FORM = {
    **dict.fromkeys(("dataset", "environment", "unjudged", "copies"), str),
    "findings": [_TEXTS],
    **dict.fromkeys(("unconfirmed", "tried", "cannot"), [str]),
    "seconds": float,
}
"""The schema of `Report.to_dict`, for ftrun.protocol.conforms."""


class SourceLine(NamedTuple):
    """Line of code, by file and number."""

    filename: str
    number: int

    def __str__(self) -> str:
        return (
            f"{self.filename}:{self.number}  "
            f"{linecache.getline(self.filename, self.number).strip()}"
        )


@dataclass(frozen=True)
class Finding:
    """Fault or remark, with the evidence. A failure under threads is a finding only if the second
    look confirmed it.
    """

    kind: str
    """The kind of fault, as a constant for programs: "results-differ", "unguarded-write", ..."""
    level: Level
    title: str
    where: str
    """"file:line" of user code, and the text of the line.
    For a fault without a line: where ``__getitem__`` starts.
    """
    what: str
    remedy: str
    seen: str
    """Evidence: how often the fault was seen, and how the second look confirmed it."""


@dataclass
class Report:
    """Result of an audit; ``print(report)`` shows all of it."""

    dataset: str
    environment: str
    findings: list[Finding] = field(default_factory=list)
    unconfirmed: list[str] = field(default_factory=list)
    """Failures that the second look did not confirm.
    They are no findings, but the report is not `ok`.
    """
    tried: list[str] = field(default_factory=list)
    cannot: list[str] = field(default_factory=list)
    """Statements that the audit cannot prove, or could not test here."""
    seconds: float = 0.0
    unjudged: str = ""
    """The number of samples that raise with one thread too,
    in words; an empty string if none does.
    """
    copies: str = ""
    """What a copy of the dataset for each thread may cure, in words; empty if nothing."""

    @property
    def ok(self) -> bool:
        """True if nothing has to be fixed: all findings are notes,
        and the second look left no failure unconfirmed.
        """
        return not self.unconfirmed and all(
            finding.level == Level.NOTE for finding in self.findings
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "version": VERSION,
            "ok": self.ok,
            "verdict": self.verdict,
            **dataclasses.asdict(self),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Report":
        """Return the report from the result of `to_dict`;
        raises ValueError if a finding's level is unknown.
        """
        report = cls(**{field.name: values[field.name] for field in dataclasses.fields(cls)})
        report.findings = []
        for finding in values["findings"]:
            level = Level(finding["level"])
            report.findings.append(Finding(**{**finding, "level": level}))
        return report

    @property
    def verdict(self) -> str:
        counts = Counter(finding.level for finding in self.findings)
        parts = [self._worst(counts)]
        number = len(self.unconfirmed)
        if number:
            parts.append(f"{number} failure{'s were' if number > 1 else ' was'} seen once")
        if self.unjudged:
            parts.append(self.unjudged)
        return "; ".join(parts)

    def _worst(self, counts: Counter[Level]) -> str:
        numbers = []
        for level in (Level.PROBLEM, Level.RISK):
            if number := counts[level]:
                numbers.append(f"{number} {level}{'s' * (number > 1)}")
        listed = ", ".join(numbers)
        if counts[Level.PROBLEM]:
            return f"not safe under threads: {listed}"
        if counts[Level.RISK]:
            return f"no wrong result was seen, but one is possible: {listed}"
        if self.unconfirmed:
            return "nothing was shown to be unsafe under threads"
        return "nothing was found that is unsafe under threads, in what was tried"

    def __str__(self) -> str:
        parts = [f"audit of {one_line(self.dataset)}\n{self.environment}; {self.seconds:.1f} s"]
        for number, finding in enumerate(sorted(self.findings, key=_rank), 1):
            parts.append(_finding_text(number, finding))
        if self.unconfirmed:
            parts.append(
                "seen once, but not in the second look (so no findings):\n"
                + _items(self.unconfirmed)
            )
        parts.append("what was tried:\n" + _items(self.tried))
        parts.append("what this cannot say:\n" + _items(self.cannot))
        if self.copies:
            parts.append(_fill(self.copies, "copies: ", "        "))
        parts.append(f"verdict: {self.verdict}")
        return "\n\n".join(parts)


def _finding_text(number: int, finding: Finding) -> str:
    lines = [
        f"{number}. {finding.level.upper()}: {one_line(finding.title)}",
        _field("where", finding.where),
        _field("what", finding.what),
        _field("remedy", finding.remedy),
        _field("seen", finding.seen),
    ]
    return "\n".join(lines)


def _rank(finding: Finding) -> tuple[bool, bool, int]:
    """Return the sort key of a finding in the report: causes before symptoms, and notes last."""
    is_note = finding.level == Level.NOTE
    is_symptom = finding.kind in SYMPTOMS
    return is_note, is_symptom, list(Level).index(finding.level)


def _field(name: str, text: str) -> str:
    first, *rest = text.split("\n")  # later lines are stacks, which have their layout
    wrapped = _fill(first, f"   {name:<8}", " " * 11, break_on_hyphens=False)
    return "\n".join([wrapped, *(" " * 11 + line for line in rest)])


def _items(texts: list[str]) -> str:
    return "\n".join(_fill(text, " - ", "   ") for text in texts)


def _fill(text: str, first: str, later: str, **options: Any) -> str:
    return textwrap.fill(
        text, 100, initial_indent=first, subsequent_indent=later, break_long_words=False, **options
    )
