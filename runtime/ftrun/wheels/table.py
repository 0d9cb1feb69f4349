"""Output of `./twins info --requirements` as a table on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ftrun.escape import one_line
from ftrun.imports import Verdict
from ftrun.wheels.judge import SERIES, Answer, Finding, Report

_STYLES = {Answer.ON: "red", Answer.SOURCE: "yellow", Answer.NONE: "yellow", Answer.DAMAGED: "red"}
_PASSES = {Answer.OFF, Answer.PURE}
_NAMED = 3  # modules of a wheel that are named


def show(reports: list[Report], verdicts: dict[str, list[Verdict]], failed: dict[str, str]) -> None:
    """Print a table of the findings, then the modules that turn the GIL on, then the results of the imports."""
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("package", *SERIES):
        table.add_column(heading, overflow="fold")
    pure = [report for report in reports if _answers(report) == {Answer.PURE}]
    excluded = [report for report in reports if not report.findings and not report.error and not report.needed_by]
    off = [report for report in reports if report.needed_by and {Answer.OFF} <= _answers(report) <= _PASSES]
    listed = [report for report in reports if report.findings and report not in pure and report not in off]
    for report in listed:
        below = f" (for {', '.join(report.needed_by)})" if report.needed_by else ""
        table.add_row(_text(report.name + below), *(_cell(report, series) for series in SERIES))
    if listed:
        console.print(table)
    for report in listed:
        for series, finding in report.findings.items():
            for line in _remarks(finding):
                console.print(f"{_text(report.name)}, {series}: {line}")
    for title, group in (
        ("GIL off", off),
        ("pure Python", pure),
        ("not for these interpreters, by their markers", excluded),
    ):
        if group:
            console.print(f"{title}: {_text(', '.join(report.name for report in group))}")
    for report in reports:
        if report.error:
            console.print(f"[red]{_text(report.name)}[/red]: {_text(report.error)}")
    if verdicts or failed:
        console.print("\nimported in this interpreter:")
    for name, each in verdicts.items():
        for verdict in each:
            console.print(f"  {_text(name)}: {_text(verdict.name)} {_text(verdict.installed)}: {_imported(verdict)}")
    for name, error in failed.items():
        console.print(f"  {_text(name)}: cannot be installed: {_text(error)}")
    if any(finding.answer is Answer.UNKNOWN for report in reports for finding in report.findings.values()):
        console.print(
            "\nSome modules say only as they start whether they need the GIL: --import tries it, in a process each."
        )


def _answers(report: Report) -> set[Answer]:
    return {finding.answer for finding in report.findings.values()}


def _text(text: str) -> str:
    return escape(one_line(text))


def _cell(report: Report, series: str) -> str:
    finding = report.findings.get(series)
    if finding is None:
        return ""
    style = _STYLES.get(finding.answer)
    words = f"[{style}]{finding.answer.value}[/{style}]" if style else finding.answer.value
    version = "" if report.name.endswith(f"=={finding.version}") else _text(f"{finding.version} ")
    better = (
        _text(f" ({finding.better}: {'off' if finding.answer is Answer.ON else 'wheel'})") if finding.better else ""
    )
    return f"{version}{words}{better}".strip()


def _remarks(finding: Finding) -> list[str]:
    """Return lines that explain a finding: its error, or the modules that turn the GIL on."""
    if finding.error:
        return [f"{_text(finding.wheel)}: {_text(finding.error)}"]
    if finding.answer is not Answer.ON:
        return []
    named, more = finding.modules[:_NAMED], len(finding.modules) - _NAMED
    return [f"turns the GIL on: {_text(', '.join(named))}" + (f" and {more} more" if more > 0 else "")]


def _imported(verdict: Verdict) -> str:
    if verdict.errors:
        return f"[red]{_text(verdict.errors[0])}[/red]"
    if verdict.turned_gil_on:
        return f"[red]turns the GIL on[/red] ({_text(verdict.turned_on_at or 'at its extension modules')})"
    return "GIL stays off"
