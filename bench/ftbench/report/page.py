"""The HTML page of a run, which needs no other file.

The page has no script, and its content security policy allows no script and no external address.
Strings of results.json are escaped by the template or, in charts, by matplotlib, or they are in
base64. The page has an SVG of each chart, narrow enough for a phone.
"""

import base64
from collections.abc import Iterable

from ftbench.report import pictures
from ftbench.report.draw import Chart
from ftbench.report.render import render
from ftbench.report.style import COLOURS, PALETTE
from ftbench.report.view import PLAIN_BUILD, ReportView
from ftrun.escape import terminal


def write(view: ReportView) -> bytes:
    """Return the page, in UTF-8."""
    charts = [waterfall.chart for waterfall in view.waterfalls]
    if view.overview:
        charts.append(view.overview)
    for scenario in view.scenarios:
        charts += scenario.charts
    text = render(
        "report.html.jinja",
        terminal,
        view=view,
        drawn=drawn(charts),
        palette=PALETTE,
        colours=COLOURS,
        plain_build=PLAIN_BUILD,
        download=link("application/json", view.document),
    )
    return text.encode()


def drawn(charts: Iterable[Chart]) -> dict[str, str]:
    """Return {name of a chart: its SVG}."""
    return {chart.name: pictures.svg(chart) for chart in charts}


def link(kind: str, content: bytes) -> str:
    """Return a data: URL with this content; *kind* is its media type."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
