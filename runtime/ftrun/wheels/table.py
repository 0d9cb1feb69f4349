"""Output of `./twins info --requirements` as a table on a terminal."""

from __future__ import annotations

import collections
import enum

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ftrun.escape import one_line
from ftrun.imports import ImportResult
from ftrun.wheels.judge import SERIES, Answer, WheelFinding, WheelReport
from ftrun.wheels.survey import Survey

_STYLES = {
    **dict.fromkeys((Answer.ON, Answer.DAMAGED), "red"),
    **dict.fromkeys((Answer.SOURCE, Answer.NONE), "yellow"),
}
_PASSES = {Answer.OFF, Answer.PURE}
_NAMED = 3  # modules of a wheel that are named


def show(survey: Survey) -> None:
    """Print a table of the findings, then the modules that turn the GIL on,
    then the results of the imports.
    """
    console = Console(highlight=False)
    groups: dict[_Group, list[WheelReport]] = collections.defaultdict(list)
    for report in survey.reports:
        groups[_group(report)].append(report)
    _show_table(console, groups[_Group.LISTED])
    for group in (_Group.OFF, _Group.PURE, _Group.EXCLUDED):
        reports = groups[group]
        if reports:
            names = ", ".join(report.name for report in reports)
            console.print(f"{group.value}: {_text(names)}")
    _show_errors(console, survey)
    _show_imports(console, survey)
    if any(finding.answer is Answer.UNKNOWN for finding in survey.findings()):
        console.print(
            "\nSome modules say only as they start whether they need the GIL: --import tries "
            "it, in a process each."
        )


class _Group(enum.Enum):
    """Reports that are shown together: those in the table,
    and those of which one line has only the names.
    """

    LISTED = "in the table"
    OFF = "GIL off"
    PURE = "pure Python"
    EXCLUDED = "not for these interpreters, by their markers"
    NOT_JUDGED = "not named"


def _group(report: WheelReport) -> _Group:
    answers = {finding.answer for finding in report.findings.values()}
    if not answers:
        # Of packages that others need, those that the markers exclude are not named.
        if report.error or report.needed_by:
            return _Group.NOT_JUDGED
        return _Group.EXCLUDED
    if answers == {Answer.PURE}:
        return _Group.PURE
    if report.needed_by and answers <= _PASSES:
        return _Group.OFF
    return _Group.LISTED


def _show_table(console: Console, reports: list[WheelReport]) -> None:
    if not reports:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("package", *SERIES):
        table.add_column(heading, overflow="fold")
    for report in reports:
        cells = [_cell(report, series) for series in SERIES]
        table.add_row(_title(report), *cells)
    console.print(table)
    for report in reports:
        _show_remarks(console, report)


def _title(report: WheelReport) -> str:
    title = report.name
    if report.needed_by:
        title += f" (for {', '.join(report.needed_by)})"
    return _text(title)


def _show_remarks(console: Console, report: WheelReport) -> None:
    for series, finding in report.findings.items():
        if remark := _remark(finding):
            console.print(f"{_text(report.name)}, {series}: {remark}")


def _show_errors(console: Console, survey: Survey) -> None:
    for report in survey.reports:
        if report.error:
            name = _text(report.name)
            console.print(f"[red]{name}[/red]: {_text(report.error)}")


def _show_imports(console: Console, survey: Survey) -> None:
    if survey.verdicts or survey.failed:
        console.print("\nimported in this interpreter:")
    for project, verdict in survey.imports():
        package = _text(f"{project}: {verdict.name} {verdict.installed}")
        console.print(f"  {package}: {_imported(verdict)}")
    for project, error in survey.failed.items():
        console.print(f"  {_text(project)}: cannot be installed: {_text(error)}")


def _text(text: str) -> str:
    return escape(one_line(text))


def _cell(report: WheelReport, series: str) -> str:
    finding = report.findings.get(series)
    if finding is None:
        return ""
    cell = finding.answer.value
    if style := _STYLES.get(finding.answer):
        cell = f"[{style}]{cell}[/{style}]"
    if not report.name.endswith(f"=={finding.version}"):
        cell = f"{_text(finding.version)} {cell}"
    if finding.better:
        kind = "off" if finding.answer is Answer.ON else "wheel"
        cell += _text(f" ({finding.better}: {kind})")
    return cell.strip()


def _remark(finding: WheelFinding) -> str:
    """Return the finding's error, or the modules that turn the GIL on; "" if there are none."""
    if finding.error:
        return _text(f"{finding.wheel}: {finding.error}")
    if finding.answer is not Answer.ON:
        return ""
    names = ", ".join(finding.modules[:_NAMED])
    remark = f"turns the GIL on: {_text(names)}"
    more = len(finding.modules) - _NAMED
    if more > 0:
        remark += f" and {more} more"
    return remark


def _imported(verdict: ImportResult) -> str:
    if verdict.errors:
        return f"[red]{_text(verdict.errors[0])}[/red]"
    if verdict.turned_gil_on:
        return (
            f"[red]turns the GIL on[/red] "
            f"({_text(verdict.turned_on_at or 'at its extension modules')})"
        )
    return "GIL stays off"
