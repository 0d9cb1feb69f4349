"""The run on a terminal or in a pipe, with its tables."""

import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ftbench.report import commands, conclusions, phrases, safety, tables
from ftrun.escape import one_line

# A pipe has no width; tables need this much not to break their lines.
PLAIN_WIDTH = 120


def show(document: dict, page: Path | None) -> None:
    """Print everything on stdout, and where the page is, if it could be written."""
    document = conclusions.told(document)
    # What is shown is text, whatever rich could make of it.
    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    console.print()
    for fall in document["waterfalls"]:
        chart = conclusions.waterfall_chart(document, fall)
        console.print(_table(chart.title, chart.table, chain=True))
        _say(console, conclusions.beside(document, fall))
        console.print()
    _say(console, map(phrases.capital, conclusions.sentences(document)), "bold")
    told = {fall["scenario"]: len(fall["steps"]) + 1 for fall in document["waterfalls"]}
    for scenario in document["scenarios"]:
        # What the waterfall says is said.
        if len(scenario["candidates"]) > told.get(scenario["name"], 0):
            _scenario(console, scenario, detailed=scenario["name"] not in told)
    _safety(console, document)
    console.print()
    _say(console, [*phrases.builds(document), phrases.machine(document), f"revision {phrases.revision(document)}"])
    for each in document["skipped"]:
        console.print(Text.assemble(("left out:", "yellow"), one_line(f" {each['what']}: {each['why']}")))
    for warning in document["warnings"]:
        console.print(Text.assemble(("note:", "yellow"), one_line(f" {warning}")))
    _say(console, filter(None, [phrases.state(document)]), "bold red")
    # soft_wrap: what a person copies must not be broken.
    if page:
        console.print(f"report: {page}", soft_wrap=True)
    for what, line in commands.longer(document):
        console.print(f"{what}: {one_line(line)}", soft_wrap=True)
    for fall in document["waterfalls"]:
        text, code = conclusions.advice(document, fall)
        _say(console, [text], "bold")
        if code:
            console.print(f"  {one_line(code)}", soft_wrap=True)


def _say(console: Console, lines: Iterable[str], style: str | None = None) -> None:
    for line in lines:
        console.print(one_line(line), style=style)


def _scenario(console: Console, scenario: dict, detailed: bool) -> None:
    console.print()
    console.print(Text.assemble((one_line(scenario["name"]), "bold"), one_line(f": {phrases.work(scenario)}")))
    _say(console, filter(None, [scenario["question"]]), "italic")
    _say(console, filter(None, [scenario["note"]]), "bold yellow")
    metric = phrases.metric(scenario)
    measured = tables.measured(scenario, metric)
    console.print(_table(f"{metric.title}: {metric.best} is better", measured))
    if not detailed:
        return
    # Of a scenario with cases, the page has the rest.
    found = phrases.pictured(scenario) if scenario["cases"] else phrases.comparisons(scenario, metric.name)
    if found:
        console.print(_table(f"Ratios of {metric.noun} within rounds", tables.outcomes(scenario, found)))
    _say(console, [phrases.resolution(scenario), *phrases.disturbed(scenario)])
    _say(console, conclusions.verdict(scenario), "bold")


def _safety(console: Console, document: dict) -> None:
    """What the thread-safety suite found."""
    console.print()
    if safety.ran(document):
        console.print(_table("Thread safety: scenarios of tests/stress", safety.table(document)))
        _say(console, safety.known(document))
        for title, text in safety.failures(document):
            console.print(one_line(title), style="bold red", soft_wrap=True)
            console.print("\n".join(map(one_line, safety.beginning(text).splitlines())), soft_wrap=True)
    style = "bold" if safety.passed(document) or "stress" not in document else "bold red"
    _say(console, safety.sentences(document), style)


def _table(title: str, content: tables.Table, chain: bool = False) -> Table:
    """A table for a terminal; that of a chain has no lines, and its last row is the whole."""
    # Many columns: without padding they fit.
    how = {"box": None, "pad_edge": False} if chain else {"padding": 0}
    table = Table(title=one_line(title), title_justify="left", **how)
    for place, heading in enumerate(content.head):
        number = place in content.numbers
        no_wrap = number if chain else not place
        table.add_column(one_line(heading), justify="right" if number else "left", no_wrap=no_wrap)
    for row in content.rows:
        table.add_row(*map(one_line, row), style="bold" if chain and row is content.rows[-1] else None)
    return table
