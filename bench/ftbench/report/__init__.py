"""Reports: terminal, PNG, Markdown and a page of their own, all from a results.json document alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def show(document: dict, directory: Path) -> None:
    """Print the comparison on stdout."""
    from ftbench.report import terminal

    terminal.show(document, directory)


def summary(document: dict) -> str:
    """The run in Markdown."""
    from ftbench.report import markdown

    return markdown.summary(document)


def files(document: dict) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of the pictures of waterfalls, scenarios and samples, of report.html and summary.md."""
    from ftbench.report import html, plot, words

    if document["waterfalls"]:
        yield "waterfall.png", plot.waterfalls(document)
    told = {fall["scenario"] for fall in document["waterfalls"]}
    for scenario in document["scenarios"]:
        # As part of a path a name is not to be trusted: the document may come from elsewhere.
        name = words.slug(scenario["name"])
        if scenario["name"] not in told:
            yield f"{name}.png", plot.png(document, scenario)
        samples = words.picture(scenario)
        if samples is not None:
            yield f"{name}-samples.png", samples
    yield "report.html", html.page(document)
    yield "summary.md", summary(document).encode()
