"""The comparison as tables on a terminal, or as plain text where stdout is none."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ftbench.report import findings, overview, repeat, safety, series, tables, waterfall, words

# A pipe has no width; tables need this much not to break their lines.
PLAIN_WIDTH = 120


def _plain(text: str) -> str:
    """Text that neither rich nor the terminal takes for more than that."""
    return escape(words.without_controls(text))


def show(document: dict, directory: Path) -> None:
    """Print everything on stdout."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    console.print()
    for fall in document["waterfalls"]:
        console.print(_waterfall(document, fall))
        console.print(_plain(waterfall.ends(document, fall)))
        if fall["missing"]:
            console.print(_plain(waterfall.missing(fall)))
        console.print()
    for sentence in overview.sentences(document):
        console.print(f"[bold]{_plain(words.capital(sentence))}[/bold]")
    told = {fall["scenario"]: len(fall["steps"]) + 1 for fall in document["waterfalls"]}
    for scenario in document["scenarios"]:
        # What the waterfall says is said.
        if len(scenario["contestants"]) > told.get(scenario["name"], 0):
            _scenario(console, scenario, detailed=scenario["name"] not in told)
    _safety(console, document)
    console.print()
    for line in words.builds(document):
        console.print(_plain(line))
    console.print(_plain(words.machine(document)))
    console.print(f"revision {_plain(words.revision(document))}")
    for each in document["skipped"]:
        console.print(f"[yellow]left out:[/yellow] {_plain(each['what'])}: {_plain(each['why'])}")
    for warning in document["warnings"]:
        console.print(f"[yellow]note:[/yellow] {_plain(warning)}")
    state = words.state(document)
    if state:
        console.print(f"[bold red]{_plain(state)}[/bold red]")
    # soft_wrap: what a person copies must not be broken.
    console.print(f"report: {directory / 'report.html'}", soft_wrap=True, markup=False)
    if longer := repeat.longer(document):
        console.print(f"To settle what is open: {_plain(longer)}", soft_wrap=True)
    for fall in document["waterfalls"]:
        text, code = waterfall.advice(document, fall)
        console.print(f"[bold]{_plain(text)}[/bold]")
        console.print(f"  {_plain(code)}", soft_wrap=True)


def _waterfall(document: dict, fall: dict) -> Table:
    """The chain, a step in a line."""
    content = waterfall.table(document, fall)
    table = Table(title=_plain(waterfall.title(document, fall)), title_justify="left", box=None, pad_edge=False)
    for place, heading in enumerate(content.head):
        number = place in content.numbers
        table.add_column(heading, justify="right" if number else "left", no_wrap=number)
    for row in content.rows:
        table.add_row(*map(_plain, row), style="bold" if row is content.rows[-1] else None)
    return table


def _scenario(console: Console, scenario: dict, detailed: bool) -> None:
    console.print()
    console.print(f"[bold]{_plain(scenario['name'])}[/bold]: {_plain(words.work(scenario))}")
    if scenario["question"]:
        console.print(_plain(scenario["question"]), style="italic")
    if scenario["note"]:
        console.print(f"[bold yellow]{_plain(scenario['note'])}[/bold yellow]")
    metric = words.metric(scenario)
    measured = tables.measured(scenario, metric, series.measured(scenario, metric.name))
    console.print(_grid(f"{metric.title}: {metric.best} is better", measured))
    if not detailed:
        return
    # Of a scenario with cases, the page has the rest.
    found = words.pictured(scenario) if scenario["cases"] else words.comparisons(scenario, metric.name)
    if found:
        console.print(_grid(f"Ratios of {metric.noun} within rounds", tables.outcomes(scenario, found)))
    console.print(_plain(words.resolution(scenario)))
    for sentence in words.disturbed(scenario):
        console.print(_plain(sentence))
    for sentence in findings.verdict(scenario):
        console.print(f"[bold]{_plain(sentence)}[/bold]")


def _safety(console: Console, document: dict) -> None:
    """What the thread-safety suite found."""
    console.print()
    if safety.ran(document):
        console.print(_grid("Thread safety: scenarios of tests/stress", safety.table(document)))
        for line in safety.known(document):
            console.print(_plain(line))
        for title, text in safety.failures(document):
            console.print(f"[bold red]{_plain(title)}[/bold red]", soft_wrap=True)
            console.print("\n".join(map(_plain, safety.beginning(text).splitlines())), soft_wrap=True)
    style = "bold" if safety.passed(document) or "stress" not in document else "bold red"
    for sentence in safety.sentences(document):
        console.print(f"[{style}]{_plain(sentence)}[/{style}]")


def _grid(title: str, content: tables.Table) -> Table:
    # Many columns: without padding they fit.
    table = Table(title=_plain(title), title_justify="left", padding=0)
    for place, heading in enumerate(content.head):
        table.add_column(_plain(heading), justify="right" if place in content.numbers else "left", no_wrap=not place)
    for row in content.rows:
        table.add_row(*map(_plain, row))
    return table
