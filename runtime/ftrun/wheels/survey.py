"""Result of `./twins info --requirements`, which table.py and `Survey.plain` show."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from ftrun.imports import ImportResult
from ftrun.wheels.judge import Answer, WheelFinding, WheelReport
from ftrun.wheels.tree import Tree

THIS_SERIES = f"{sys.version_info.major}.{sys.version_info.minor}t"
_UNCLEAR = (Answer.UNKNOWN, Answer.SOURCE, Answer.NONE)


@dataclass
class Survey:
    """Reports on packages, and the results of importing them."""

    reports: list[WheelReport]
    tree: Tree
    verdicts: dict[str, list[ImportResult]] = field(default_factory=dict)
    """By project: the verdicts on it and on what was installed with it."""
    failed: dict[str, str] = field(default_factory=dict)
    """{project: reason why it cannot be installed}."""

    def findings(self) -> Iterator[WheelFinding]:
        """Yield the findings of all reports."""
        for report in self.reports:
            yield from report.findings.values()

    def imports(self) -> Iterator[tuple[str, ImportResult]]:
        """Yield (project, verdict)."""
        for project, verdicts in self.verdicts.items():
            for verdict in verdicts:
                yield project, verdict

    @property
    def exit_status(self) -> int:
        """1 if a package turns the GIL on, else 2 if one could not be judged, else 3 if one is
        unclear, else 0.
        """
        answers = {finding.answer for finding in self.findings()}
        if Answer.ON in answers or self._turned_gil_on():
            return 1
        if Answer.DAMAGED in answers or self._has_errors():
            return 2
        if any(map(self._is_unclear, self.reports)):
            return 3
        return 0

    def _turned_gil_on(self) -> bool:
        return any(verdict.turned_gil_on for _, verdict in self.imports())

    def _has_errors(self) -> bool:
        if self.tree.error or self.failed:
            return True
        if any(report.error for report in self.reports):
            return True
        return any(verdict.errors for _, verdict in self.imports())

    def _is_unclear(self, report: WheelReport) -> bool:
        """True if an answer is missing that no import of the package has given."""
        for series, finding in report.findings.items():
            is_imported = series == THIS_SERIES and report.project in self.verdicts
            if finding.answer in _UNCLEAR and not is_imported:
                return True
        return False

    def plain(self) -> dict:
        """Return everything in one dictionary that fits JSON."""
        return {
            "packages": [_plain(report) for report in self.reports],
            "imports": [
                {"requirement": project, **asdict(verdict)} for project, verdict in self.imports()
            ],
            "not_imported": self.failed,
            "not_resolved": self.tree.error,
            "without_wheel": list(self.tree.without_wheel),
        }


def _plain(report: WheelReport) -> dict:
    findings = {}
    for series, finding in report.findings.items():
        findings[series] = asdict(finding)
        findings[series]["answer"] = finding.answer.name.lower()
    return {
        "requirement": report.requirement,
        "needed_by": list(report.needed_by),
        "error": report.error,
        "series": findings,
    }
