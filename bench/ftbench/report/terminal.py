"""The report of a run as text, for a terminal or a pipe."""

import sys
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ftbench.document.model import Results
from ftbench.report import advice, commands, run_words, safety, tables, verdict_words, waterfalls
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftrun.escape import one_line

# A pipe has no width; tables need this much not to break their lines.
PLAIN_WIDTH = 120


def show(run: Analysis, page: Path | None) -> None:
    """Print the whole report on stdout, and the path of the HTML page if it was written."""
    results = run.results
    # Only plain text is shown: rich must not interpret it.
    console = Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    console.print()
    for fall in run.waterfalls:
        chart = waterfalls.chart(run, fall)
        console.print(_table(chart.title, chart.table, chain=True))
        _say(console, waterfalls.notes(run, fall))
        console.print()
    _say(console, map(run_words.capital, verdict_words.sentences(run)), "bold")
    told = {fall.scenario: len(fall.steps) + 1 for fall in run.waterfalls}
    for scenario in run.scenarios:
        # Skip a scenario whose candidates are all in its waterfall.
        if len(scenario.candidates) > told.get(scenario.name, 0):
            _scenario(console, scenario, detailed=scenario.name not in told)
    _safety(console, results)
    console.print()
    _say(console, [*run_words.builds(results), run_words.machine(results), f"revision {run_words.revision(results)}"])
    for title, lines in (("left out:", run_words.left_out(results)), ("note:", run_words.warnings(results))):
        for line in lines:
            console.print(Text.assemble((title, "yellow"), one_line(f" {line}")))
    _say(console, filter(None, [run_words.state(results)]), "bold red")
    # soft_wrap: text that people copy must not be broken into lines.
    if page:
        console.print(f"report: {page}", soft_wrap=True)
    for what, line in commands.longer(run):
        console.print(f"{what}: {one_line(line)}", soft_wrap=True)
    for fall in run.waterfalls:
        text, code = advice.advice(run, fall)
        _say(console, [text], "bold")
        if code:
            console.print(f"  {one_line(code)}", soft_wrap=True)


def _say(console: Console, lines: Iterable[str], style: str | None = None) -> None:
    for line in lines:
        console.print(one_line(line), style=style)


def _scenario(console: Console, scenario: AnalysedScenario, detailed: bool) -> None:
    console.print()
    console.print(Text.assemble((one_line(scenario.name), "bold"), one_line(f": {run_words.work(scenario)}")))
    _say(console, filter(None, [scenario.question]), "italic")
    _say(console, filter(None, [scenario.note]), "bold yellow")
    metric = scenario.metric
    measured = tables.measured(scenario, metric)
    console.print(_table(f"{metric.title}: {metric.best} is better", measured))
    if not detailed:
        return
    # If a scenario has cases, the other ratios are only in the page.
    found = scenario.principal if scenario.cases else scenario.compared(metric.name)
    if found:
        console.print(_table(f"Ratios of {metric.noun} within rounds", tables.outcomes(scenario, found)))
    _say(console, [verdict_words.resolution(scenario), *run_words.disturbed(scenario)])
    _say(console, verdict_words.verdict(scenario), "bold")


def _safety(console: Console, results: Results) -> None:
    console.print()
    if (part := results.stress) and part.results:
        console.print(_table("Thread safety: scenarios of tests/stress", safety.table(results, part)))
        _say(console, safety.known(part))
        for title, text in safety.failures(part):
            console.print(one_line(title), style="bold red", soft_wrap=True)
            console.print("\n".join(map(one_line, safety.beginning(text).splitlines())), soft_wrap=True)
    style = "bold" if safety.passed(results) or part is None else "bold red"
    _say(console, safety.sentences(results), style)


def _table(title: str, content: tables.Table, chain: bool = False) -> Table:
    """Return *content* as a table for a terminal. If `chain`, it is a waterfall: no lines, and the last row in bold."""
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
