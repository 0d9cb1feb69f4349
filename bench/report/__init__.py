"""Reports: terminal, PNG and a page of their own, all from a results.json document alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def show(document: dict, directory: Path) -> None:
    """Print the comparison on stdout."""
    from bench.report import terminal

    terminal.show(document, directory)


def files(document: dict) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of a PNG for each scenario and of report.html."""
    from bench.report import html, plot

    for scenario in document["scenarios"]:
        yield f"{scenario['name']}.png", plot.png(document, scenario)
    yield "report.html", html.page(document)
