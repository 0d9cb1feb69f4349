"""The report of a run as text, for a terminal or a pipe."""

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ftbench.plan.waterfall import IN_ALL
from ftbench.report import safety, tables
from ftbench.report.view import ReportView, SafetyView, ScenarioView
from ftrun import host
from ftrun.escape import one_line

# A pipe has no width; tables need this much not to break their lines.
PLAIN_WIDTH = 120
# Below this width, tables would cut their words: each row becomes a block of lines.
NARROW = 80


def write(view: ReportView) -> None:
    """Print the report on stdout, the answers first, and the path of the page if it was written.

    If `view.detailed`, also print the tables of all candidates and comparisons,
    and those of the thread-safety suite.
    """
    with printed() as console:
        console.print()
        say(console, filter(None, [view.state]), "bold red")
        for opening in view.openings:
            say(console, [opening.sentence, opening.advice], "bold")
            # soft_wrap: text that people copy must not be broken into lines.
            if opening.code:
                console.print(f"  {one_line(opening.code)}", soft_wrap=True)
            say(console, opening.remarks)
            console.print()
        for scenario in view.others:
            _answers(console, scenario)
        for waterfall in view.waterfalls:
            table(console, waterfall.chart.title, waterfall.chart.table, chain=True)
            say(console, waterfall.notes)
            console.print()
        if view.detailed:
            _details(console, view.scenarios)
        _safety(console, view.safety, view.detailed)
        console.print()
        _environment(console, view)


@contextlib.contextmanager
def printed() -> Iterator[Console]:
    """Context manager: yield a console, and at the end print
    on stdout what was written to the console.
    """
    plain = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    # Only plain text is shown: rich must not interpret it.
    console = Console(
        highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH if plain else None
    )
    with console.capture() as captured:
        yield console
    text = captured.get()
    if not sys.stdout.isatty():
        # rich pads the cells of tables
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    sys.stdout.write(text)
    sys.stdout.flush()


def _environment(console: Console, view: ReportView) -> None:
    say(console, [*view.builds, view.machine, f"revision {view.revision}"])
    for title, lines in (("left out:", view.left_out), ("note:", view.warnings)):
        for line in lines:
            console.print(Text.assemble((title, "yellow"), one_line(f" {line}")))
    for purpose, line in view.further:
        console.print(f"{purpose}: {one_line(line)}", soft_wrap=True)
    if view.page:
        console.print(f"report: {host.path(str(view.page))}", soft_wrap=True)


def say(console: Console, lines: Iterable[str], style: str | None = None) -> None:
    """Print each of the *lines*, escaped, wrapped to the console's width."""
    for line in lines:
        console.print(one_line(line), style=style)


def _answers(console: Console, scenario: ScenarioView) -> None:
    name = one_line(scenario.name), "bold"
    console.print(Text.assemble(name, one_line(f": {scenario.subject}")))
    say(console, filter(None, [scenario.note]), "bold yellow")
    say(console, [*scenario.answer, *scenario.levels], "bold")
    say(console, scenario.limits)
    console.print()


def _details(console: Console, scenarios: Iterable[ScenarioView]) -> None:
    for scenario in scenarios:
        if scenario.details:
            say(console, [scenario.details_title])
            for title, content in scenario.details:
                table(console, title, content)
            console.print()


def _safety(console: Console, suite: SafetyView, detailed: bool) -> None:
    if suite.table and detailed:
        table(console, "Thread safety: scenarios of tests/stress", suite.table)
        say(console, suite.known)
    for title, text in suite.failures:
        console.print(one_line(title), style="bold red", soft_wrap=True)
        lines = safety.beginning(text).splitlines()
        console.print("\n".join(map(one_line, lines)), soft_wrap=True)
    say(console, suite.sentences, "bold red" if suite.failed else "bold")


def table(console: Console, title: str, content: tables.Table, chain: bool = False) -> None:
    """Print *content* as a table, or as a block of lines for each row if the console is narrow.

    If `chain`, *content* is a waterfall: the table has no lines, and the row of the whole is bold.
    """
    if console.width < NARROW:
        _blocks(console, title, content)
        return
    # Many columns: without padding they fit.
    options = {"box": None, "pad_edge": False} if chain else {"padding": 0}
    grid = Table(title=one_line(title), title_justify="left", **options)
    for place, heading in enumerate(content.head):
        is_number = place in content.numbers
        grid.add_column(
            one_line(heading),
            justify="right" if is_number else "left",
            no_wrap=is_number if chain else not place,
        )
    for row in content.rows:
        is_total = chain and row[0] == IN_ALL
        grid.add_row(*map(one_line, row), style="bold" if is_total else None)
    console.print(grid)


def _blocks(console: Console, title: str, content: tables.Table) -> None:
    """Print each row of a table as lines: its first cell,
    then all its figures, then each other cell.
    """
    console.print(one_line(title), style="italic")
    for first, *cells in content.rows:
        console.print(one_line(first), style="bold")
        figures: list[str] = []
        texts: list[str] = []
        for place, cell in enumerate(cells, 1):
            if cell:
                kind = figures if place in content.numbers else texts
                kind.append(f"{content.head[place]}: {cell}")
        for text in filter(None, (", ".join(figures), *texts)):
            console.print(Padding(one_line(text), (0, 0, 0, 2)))
