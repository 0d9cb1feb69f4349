"""The HTML page of a merge, which needs no other file."""

from ftbench.merge.view import METHOD, View
from ftbench.report import page
from ftbench.report.render import render
from ftbench.report.style import COLOURS, PALETTE
from ftrun import escape


def write(view: View) -> bytes:
    """Return the page, in UTF-8."""
    charts = [chart for group in view.groups for chart in group.waterfalls]
    download = page.link("application/json", view.document)
    text = render(
        "merged.html.jinja",
        escape.terminal,
        view=view,
        method=METHOD,
        drawn=page.drawn(charts),
        download=download,
        palette=PALETTE,
        colours=COLOURS,
    )
    return text.encode()
