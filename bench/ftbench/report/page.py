"""The files of a run's report: pictures, and an HTML page that needs no other file.

The page has no script, and its content security policy allows no script and no external address. Strings of
results.json are escaped by the template or, in charts, by matplotlib, or they are in base64. The page has an SVG of
each chart, narrow enough for a phone. The charts of a scenario are also a PNG, to be saved.
"""

import base64
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib.style
from matplotlib.figure import Figure

from ftbench.document.convert import as_json
from ftbench.report import advice, charts, commands, markdown, run_words, verdict_words, waterfalls
from ftbench.report.draw import Chart
from ftbench.report.render import render
from ftbench.report.style import ALARM, BACK, GAP, LINE, LINE_LETTERS, PALETTE, SOFT, TEXT, WIDTH, wrapped
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftrun.escape import terminal

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
# The most lines of a text above charts.
MOST_LINES = 6


def files(run: Analysis, where: Path = Path()) -> Iterator[tuple[str, bytes]]:
    """Yield (file name, content) of each file: pictures of waterfalls and of scenarios, report.html, summary.md.

    `where` is the directory of the run's results.json.
    """
    alarm = run.results.status != "complete"
    if run.waterfalls:
        falls = [waterfalls.chart(run, fall) for fall in run.waterfalls]
        yield "waterfall.png", png(falls, heading(run), alarm)
    told = {fall.scenario for fall in run.waterfalls}
    for scenario in run.scenarios:
        # The document may come from elsewhere, so its names are not safe as parts of a path.
        name = run_words.slug(scenario.name)
        shown = [] if scenario.name in told else [c for c in charts.charts(scenario) if not c.folded]
        if shown:
            yield f"{name}.png", png(shown, heading(run, scenario), alarm)
    yield "report.html", page(run, where)
    yield "summary.md", markdown.summary(run, where).encode()


def page(run: Analysis, where: Path = Path()) -> bytes:
    """Return the complete HTML page, in UTF-8. `where`: see `files`."""
    written = json.dumps(as_json(run.results), separators=(",", ":"), allow_nan=False)
    text = render(
        "report.html.jinja",
        terminal,
        (*markdown.MODULES, charts),
        run=run,
        results=run.results,
        repeat=commands.commands(run, where),
        heading=heading,
        svg=svg,
        palette=PALETTE,
        download=link("application/json", written.encode()),
    )
    return text.encode()


def heading(run: Analysis, scenario: AnalysedScenario | None = None) -> list[str]:
    """Return the lines of text above the charts of a picture file, about *scenario* or, if it is None, the whole run.

    The lines are the subject, the answers to its questions, a note, the machine, and why an incomplete run stopped.
    """
    about = f"{scenario.name}: {scenario.description}" if scenario else run_words.subject(run)
    built = sorted({twin.interpreter.build for twin in run.results.environment.twins.values()})
    machine = run_words.machine(run.results).split(", Linux")[0]
    ranks = [f"{scenario.ranks} ranks"] if scenario and scenario.ranks else []
    rounds = [*ranks, run_words.rounds(scenario)] if scenario else []
    answers = verdict_words.answer(scenario) if scenario else [each.sentence for each in advice.openings(run)]
    note = scenario and scenario.note
    lines = (about, *answers, note, run_words.state(run.results), "; ".join([machine, *built, *rounds]))
    return [line for line in lines if line]


def link(kind: str, content: bytes) -> str:
    """Return a data: URL with this content; *kind* is its media type."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _figure(shown: Sequence[Chart], head: Sequence[str], alarm: bool) -> Figure:
    """Return a figure of charts in at most two columns, each chart below its title, all below the heading *head*."""
    columns = min(2, len(shown))
    above = [line for text in head for line in wrapped(text, LINE_LETTERS * columns, MOST_LINES)]
    titles = [
        [(line, {"weight": "bold"}) for line in wrapped(chart.title, LINE_LETTERS - 4)]
        + [(line, {"color": SOFT}) for line in wrapped(chart.caption)]
        for chart in shown
    ]
    top = float(len(above) * LINE + 2 * GAP)
    places = []
    for first in range(0, len(shown), columns):
        room = max(len(title) * LINE + GAP / 2 for title in titles[first : first + columns])
        places += [(column * (WIDTH + GAP), top, top + room) for column in range(columns)]
        top += room + max(chart.picture.height for chart in shown[first : first + columns]) + GAP
    across, down = columns * (WIDTH + GAP) - GAP, top
    figure = Figure(figsize=(across / 72, down / 72), dpi=72, facecolor=BACK)

    def write(x: float, y: float, line: str, **how) -> None:
        figure.text((x + 4) / across, 1 - y / down, line, va="top", **how)

    for number, line in enumerate(above):
        write(0, GAP + number * LINE, line, color=ALARM if alarm else TEXT)
    for (left, at, below), title, chart in zip(places, titles, shown, strict=False):
        for number, (line, how) in enumerate(title):
            write(left, at + number * LINE, line, **how)
        chart.picture.draw(figure, left, below)
    return figure


def png(shown: Sequence[Chart], head: Sequence[str], alarm: bool = False) -> bytes:
    """Return a PNG of charts with their titles; `alarm` colours the heading red."""
    with matplotlib.style.context(["default", STYLE]):  # ignore the user's matplotlibrc
        return _saved(_figure(shown, head, alarm), format="png", dpi=144)


def _saved(figure: Figure, **how: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, metadata={"Date": None}, **how)
    return buffer.getvalue()


def svg(chart: Chart) -> str:
    """Return *chart* as an SVG in the page's colours, with tooltips, without its title and unused elements."""
    height = chart.picture.height
    # Ids are hashes with this salt, so none is in two charts of a page.
    with matplotlib.style.context(["default", STYLE, {"svg.hashsalt": chart.name}]):
        figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72, facecolor=BACK)
        chart.picture.draw(figure, 0, 0)
        root = ElementTree.fromstring(_saved(figure, format="svg", dpi=72))
    elements = list(root.iter())
    used = set(re.findall(r"#([\w-]+)", " ".join(value for element in elements for value in element.attrib.values())))
    changes = {FONT: ""} | {light: f"var(--{name})" for name, (light, _) in PALETTE.items()}
    for element in elements:
        for child in list(element):
            if child.tag.endswith(("}metadata", "}style")):
                element.remove(child)
        element.tag, element.tail = element.tag.rpartition("}")[2], None
        element.text = element.text if element.tag == "text" else None
        before, element.attrib = element.attrib, {}
        for key, value in before.items():
            if key == "id" and value.startswith('"'):
                title = ElementTree.Element("title")
                title.text = json.loads(value)
                element.insert(0, title)
                element.set("pointer-events", "all")
            elif key.endswith("}href"):
                element.set("href", value)
            elif key != "id" and not value.startswith("rotate(-0 ") or value in used:
                for old, new in changes.items():
                    value = value.replace(old, new)
                element.set(key, re.sub(r"\d+\.\d\d+", lambda found: f"{float(found[0]):.2f}", value))
    root.attrib.update(width=f"{WIDTH}", height=f"{height:g}", viewBox=f"0 0 {WIDTH} {height:g}")
    root.attrib.update(xmlns="http://www.w3.org/2000/svg", style=f"{FONT}stroke-linejoin: round; stroke-linecap: butt")
    return ElementTree.tostring(root, encoding="unicode")
