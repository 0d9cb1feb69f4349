"""Pictures of charts: PNG files to be saved, and the SVG of each chart that a page holds."""

import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any
from xml.etree import ElementTree

import matplotlib.style
from matplotlib.figure import Figure

from ftbench.report.draw import Chart
from ftbench.report.style import (
    ALARM,
    BACK,
    COLOURS,
    GAP,
    LINE,
    LINE_LETTERS,
    PALETTE,
    SOFT,
    TEXT,
    WIDTH,
    wrapped,
)
from ftbench.report.view import ReportView

STYLE = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 13,
    "text.color": TEXT,
    "hatch.linewidth": 1.5,
    "svg.fonttype": "none",
    # A dollar sign in a text does not start a formula.
    "text.parse_math": False,
}
# The font, as matplotlib writes it with every text.
FONT = "font-size: 13px; font-family: 'DejaVu Sans', sans-serif; "
# What the page has in place of what matplotlib writes: the colours of its own.
CHANGES = {FONT: ""} | {light: f"var(--{name})" for name, (light, _) in PALETTE.items()}
# The most lines of a text above charts.
MOST_LINES = 6

TextLine = tuple[str, dict[str, Any]]
"""A line of text, and arguments for matplotlib."""


def write(view: ReportView) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, PNG) of the waterfalls, and of each scenario without one."""
    alarm, key = view.state is not None, view.configurations
    if view.waterfalls:
        falls = [waterfall.chart for waterfall in view.waterfalls]
        yield "waterfall.png", png(falls, view.heading, alarm, key)
    for scenario in view.others:
        charts = [chart for chart in scenario.charts if not chart.folded]
        if charts:
            # The document may come from elsewhere, so its names are not safe as parts of a path.
            yield f"{scenario.slug}.png", png(charts, scenario.heading, alarm, key)


def _figure(
    charts: Sequence[Chart], head: Sequence[str], alarm: bool, key: Mapping[str, str] = {}
) -> Figure:
    """Return a figure of charts in at most two columns, each chart below its title, all below the
    heading *head* and the *key* to the configurations' names and colours.
    """
    columns = min(2, len(charts))
    colour = ALARM if alarm else TEXT
    above: list[TextLine] = []
    for text in head:
        lines = wrapped(text, LINE_LETTERS * columns, MOST_LINES)
        above += [(line, {"color": colour}) for line in lines]
    names = [(f"{name}: {words}", COLOURS[name]) for name, words in key.items()]
    top = float((len(above) + len(names)) * LINE + 2 * GAP)
    places: list[tuple[Chart, float, float, float]] = []
    for row in itertools.batched(charts, columns, strict=False):
        titles = max(len(_titles(chart)) for chart in row) * LINE + GAP / 2
        for column, chart in enumerate(row):
            places.append((chart, column * (WIDTH + GAP), top, top + titles))
        top += titles + max(chart.picture.height for chart in row) + GAP
    across, down = columns * (WIDTH + GAP) - GAP, top
    figure = _blank(across, down)

    def write(left: float, top: float, lines: Sequence[TextLine]) -> None:
        for number, (line, look) in enumerate(lines):
            y = 1 - (top + number * LINE) / down
            figure.text((left + 4) / across, y, line, va="top", **look)

    write(0, GAP, above)
    below_heading = GAP + len(above) * LINE
    write(0, below_heading, [("\N{BLACK SQUARE}", {"color": colour}) for _, colour in names])
    write(LINE, below_heading, [(text, {"color": SOFT}) for text, _ in names])
    for chart, left, top, below in places:
        write(left, top, _titles(chart))
        chart.picture.draw(figure, left, below)
    return figure


def _blank(width: float, height: float) -> Figure:
    """Return an empty figure; sizes are in pixels."""
    return Figure(figsize=(width / 72, height / 72), dpi=72, facecolor=BACK)


def _titles(chart: Chart) -> list[TextLine]:
    """Return the lines above a chart."""
    title = [(line, {"weight": "bold"}) for line in wrapped(chart.title, LINE_LETTERS - 4)]
    return title + [(line, {"color": SOFT}) for line in wrapped(chart.caption, most=MOST_LINES)]


def png(charts: Sequence[Chart], head: Sequence[str], alarm: bool, key: Mapping[str, str]) -> bytes:
    """Return a PNG of charts with their titles and the key to the configurations; `alarm` colours
    the heading red.
    """
    with matplotlib.style.context(["default", STYLE]):  # ignore the user's matplotlibrc
        return _saved(_figure(charts, head, alarm, key), format="png", dpi=144)


def _saved(figure: Figure, **options: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, metadata={"Date": None}, **options)
    return buffer.getvalue()


def svg(chart: Chart) -> str:
    """Return *chart* as an SVG in the page's colours, with tooltips,
    without its title and unused elements.
    """
    height = chart.picture.height
    # Ids are hashes with this salt, so none is in two charts of a page.
    with matplotlib.style.context(["default", STYLE, {"svg.hashsalt": chart.name}]):
        figure = _blank(WIDTH, height)
        chart.picture.draw(figure, 0, 0)
        root = ElementTree.fromstring(_saved(figure, format="svg", dpi=72))
    elements = list(root.iter())
    values = itertools.chain.from_iterable(element.attrib.values() for element in elements)
    used = set(re.findall(r"#([\w-]+)", " ".join(values)))
    for element in elements:
        _convert(element, used)
    root.attrib.update(width=f"{WIDTH}", height=f"{height:g}", viewBox=f"0 0 {WIDTH} {height:g}")
    root.attrib.update(
        xmlns="http://www.w3.org/2000/svg",
        style=f"{FONT}stroke-linejoin: round; stroke-linecap: butt",
    )
    return ElementTree.tostring(root, encoding="unicode")


def _convert(element: ElementTree.Element, used: Set[str]) -> None:
    """Convert an element that matplotlib wrote to the page's form.

    used: the ids that other elements refer to.
    """
    for child in list(element):
        if child.tag.endswith(("}metadata", "}style")):
            element.remove(child)
    element.tag, element.tail = element.tag.rpartition("}")[2], None
    if element.tag != "text":
        element.text = None
    before, element.attrib = element.attrib, {}
    for key, value in before.items():
        _set(element, key, value, used)


def _set(element: ElementTree.Element, key: str, value: str, used: Set[str]) -> None:
    """Give an element an attribute that matplotlib wrote, if it is used, in the page's form."""
    if key == "id" and value.startswith('"'):
        title = ElementTree.Element("title")
        title.text = json.loads(value)
        element.insert(0, title)
        element.set("pointer-events", "all")
    elif key.endswith("}href"):
        element.set("href", value)
    elif key != "id" and not value.startswith("rotate(-0 ") or value in used:
        for written, colour in CHANGES.items():
            value = value.replace(written, colour)
        element.set(key, re.sub(r"\d+\.\d\d+", lambda match: f"{float(match[0]):.2f}", value))
