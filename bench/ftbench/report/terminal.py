"""The report of a run as text, for a terminal or a pipe."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ftbench.document.model import Results
from ftbench.report import advice, commands, run_words, safety, tables, verdict_words, waterfalls
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftrun import host
from ftrun.escape import one_line

# A pipe has no width; tables need this much not to break their lines.
PLAIN_WIDTH = 120
# Below this width, tables would cut their words: each row becomes a block of lines.
NARROW = 80


def show(run: Analysis, page: Path | None, detailed: bool = False) -> None:
    """Print the report on stdout, the answers first, and the path of the HTML page if it was written.

    If `detailed`, also print the tables of all candidates and comparisons, and those of the thread-safety suite.
    """
    with printed() as console:
        _report(console, run, page, detailed)


@contextlib.contextmanager
def printed() -> Iterator[Console]:
    """Context manager: yield a console, and at the end print on stdout what was written to the console."""
    plain = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    # Only plain text is shown: rich must not interpret it.
    console = Console(highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH if plain else None)
    with console.capture() as shown:
        yield console
    text = shown.get()
    if not sys.stdout.isatty():
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())  # rich pads the cells of tables
    sys.stdout.write(text)
    sys.stdout.flush()


def _report(console: Console, run: Analysis, page: Path | None, detailed: bool) -> None:
    results = run.results
    console.print()
    say(console, filter(None, [run_words.state(results)]), "bold red")
    for each in advice.openings(run):
        say(console, [each.sentence, each.advice], "bold")
        # soft_wrap: text that people copy must not be broken into lines.
        if each.code:
            console.print(f"  {one_line(each.code)}", soft_wrap=True)
        say(console, each.remarks)
        console.print()
    for scenario in run.others:
        _answers(console, scenario)
    for fall in run.waterfalls:
        chart = waterfalls.chart(run, fall)
        table(console, chart.title, chart.table, chain=True)
        say(console, waterfalls.notes(run, fall))
        console.print()
    if detailed:
        told = {fall.scenario: len(fall.steps) + 1 for fall in run.waterfalls}
        for scenario in run.scenarios:
            # Skip a scenario whose candidates are all in its waterfall.
            if len(scenario.candidates) > told.get(scenario.name, 0):
                _figures(console, scenario, ratios=scenario.name not in told)
    _safety(console, results, detailed)
    console.print()
    say(console, [*run_words.builds(results), run_words.machine(results), f"revision {run_words.revision(results)}"])
    for title, lines in (("left out:", run_words.left_out(results)), ("note:", results.warnings)):
        for line in lines:
            console.print(Text.assemble((title, "yellow"), one_line(f" {line}")))
    for what, line in commands.further(run):
        console.print(f"{what}: {one_line(line)}", soft_wrap=True)
    if page:
        console.print(f"report: {host.path(str(page))}", soft_wrap=True)


def say(console: Console, lines: Iterable[str], style: str | None = None) -> None:
    """Print each of the *lines*, escaped, wrapped to the console's width."""
    for line in lines:
        console.print(one_line(line), style=style)


def _answers(console: Console, scenario: AnalysedScenario) -> None:
    about = run_words.capital(scenario.question or scenario.description)
    console.print(Text.assemble((one_line(scenario.name), "bold"), one_line(f": {about}")))
    say(console, filter(None, [scenario.note]), "bold yellow")
    say(console, [*verdict_words.answer(scenario), *verdict_words.levels(scenario)[1:]], "bold")
    say(console, run_words.limits(scenario))
    console.print()


def _figures(console: Console, scenario: AnalysedScenario, ratios: bool) -> None:
    say(console, [f"{scenario.name}: {run_words.work(scenario)}"])
    metric = scenario.metric
    table(console, f"{metric.title}: {metric.best} is better", tables.measured(scenario, metric))
    # If a scenario has cases, the other ratios are only in the page.
    found = scenario.principal() if scenario.cases else scenario.compared(metric.name)
    if ratios and found:
        table(console, f"Ratios of {metric.noun} within rounds", tables.outcomes(scenario, found))
    console.print()


def _safety(console: Console, results: Results, detailed: bool) -> None:
    if (part := results.stress) and part.results:
        if detailed:
            table(console, "Thread safety: scenarios of tests/stress", safety.table(results, part))
            say(console, safety.known(part))
        for title, text in safety.failures(results, part):
            console.print(one_line(title), style="bold red", soft_wrap=True)
            console.print("\n".join(map(one_line, safety.beginning(text).splitlines())), soft_wrap=True)
    style = "bold" if safety.passed(results) or part is None else "bold red"
    say(console, safety.sentences(results), style)


def table(console: Console, title: str, content: tables.Table, chain: bool = False) -> None:
    """Print *content* as a table, or as a block of lines for each row if the console is narrow.

    If `chain`, *content* is a waterfall: the table has no lines, and its last row is bold.
    """
    if console.width < NARROW:
        _blocks(console, title, content)
        return
    # Many columns: without padding they fit.
    how = {"box": None, "pad_edge": False} if chain else {"padding": 0}
    grid = Table(title=one_line(title), title_justify="left", **how)
    for place, heading in enumerate(content.head):
        number = place in content.numbers
        no_wrap = number if chain else not place
        grid.add_column(one_line(heading), justify="right" if number else "left", no_wrap=no_wrap)
    for row in content.rows:
        grid.add_row(*map(one_line, row), style="bold" if chain and row is content.rows[-1] else None)
    console.print(grid)


def _blocks(console: Console, title: str, content: tables.Table) -> None:
    """Print each row of a table as lines: its first cell, then all its figures, then each other cell."""
    console.print(one_line(title), style="italic")
    for first, *cells in content.rows:
        console.print(one_line(first), style="bold")
        named = [(at, f"{content.head[at]}: {cell}") for at, cell in enumerate(cells, 1) if cell]
        figures = ", ".join(text for at, text in named if at in content.numbers)
        for text in (figures, *(text for at, text in named if at not in content.numbers)):
            if text:
                console.print(Padding(one_line(text), (0, 0, 0, 2)))
