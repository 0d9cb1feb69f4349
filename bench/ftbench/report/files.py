"""The files of a run's report: pictures, the page, the summary."""

from collections.abc import Iterator

from ftbench.report import markdown, page, pictures
from ftbench.report.view import ReportView


def write(view: ReportView) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, content) of each file."""
    yield from pictures.write(view)
    yield "report.html", page.write(view)
    yield "summary.md", markdown.write(view)
