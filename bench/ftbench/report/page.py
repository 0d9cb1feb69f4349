"""The HTML page of a run, which needs no other file.

The page has no script, and its content security policy allows no script and no external address.
Strings of results.json are escaped by the template or, in charts, by matplotlib, or they are in
base64. The page has an SVG of each chart, narrow enough for a phone.
"""

import base64
from collections.abc import Iterable
from typing import Any

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
    return page("report.html.jinja", charts, view.document, view=view, plain_build=PLAIN_BUILD)


def page(template: str, charts: Iterable[Chart], document: bytes, **values: Any) -> bytes:
    """Return a page in UTF-8: the *template*, filled in with *values*, the *charts*, and the JSON
    *document* to download.
    """
    text = render(
        template,
        terminal,
        drawn={chart.name: pictures.svg(chart) for chart in charts},
        palette=PALETTE,
        colours=COLOURS,
        download=f"data:application/json;base64,{base64.b64encode(document).decode()}",
        **values,
    )
    return text.encode()
