"""What all the page's charts have in common: an empty figure, rows with headings, texts, marks on axes.

Colours of text, lines and background are the page's own (`var(--text)`), which templates/report.js puts
in for light and dark. A figure's height fits its rows; `meta` tells the script what belongs to it, so that
it can make room for a legend that takes more lines on a phone.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable

import plotly.graph_objects as go

from ftbench.report.series import log_marks
from ftbench.report.words import without_controls
from ftrun import escape

FONT = 13
SMALL = 12
BAR, GAP, HEADING = 20, 12, 22
"""Pixels: a bar, the room between groups, the line above a group that names it."""
LINE = 16
"""Pixels of one more line of a heading."""
# Characters of a name in a legend or above a bar, of a mark on an axis, and of a line above a row on a phone.
LONGEST_NAME, LONGEST_MARK, PHONE_LINE = 80, 16, 52
# Bold ones.
STRONG_LINE = 44
TEXT, SOFT, GRID, BACK, SHOWN = (f"var(--{name})" for name in ("text", "soft", "grid", "back", "shown"))
OUTLINE = "#808080"


def safe(text: str, most: int = 1000) -> str:
    """Text that plotly shows as it is: it reads a little HTML, which is not for the measured to write.

    Of at most so many characters, since plotly gives every text the room that it asks for.
    """
    text = without_controls(text)
    return escape.html(text if len(text) <= most else text[: most - 1] + "…")


def lines(text: str) -> str:
    """Safe text with its line ends."""
    return "<br>".join(safe(line) for line in text.split("\n"))


def in_lines(text: str, width: int = PHONE_LINE) -> list[str]:
    lines = textwrap.wrap(without_controls(text), width, max_lines=3, placeholder=" …")
    return [safe(line) for line in lines] or [""]


def figure(height: int, names: Iterable[str] = (), legend: bool = True) -> go.Figure:
    """An empty figure, `height` pixels without its legend, which it has if there are several names."""
    names = list(names)
    entry = min(LONGEST_NAME, max((len(name) for name in names), default=0)) * 6.6  # pixels of its text
    figure = go.Figure()
    figure.update_layout(
        template="none",
        height=height,
        autosize=False,
        dragmode=False,
        hovermode="closest",
        font={"family": "system-ui, sans-serif", "size": FONT, "color": TEXT},
        paper_bgcolor=BACK,
        plot_bgcolor=BACK,
        showlegend=legend and len(names) > 1,
        margin={"l": 8, "r": 12, "t": 8, "b": 56, "pad": 0, "autoexpand": False},
        hoverlabel={"bgcolor": BACK, "bordercolor": OUTLINE, "font": {"color": TEXT, "size": FONT}, "align": "left"},
        legend={
            "orientation": "h",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "xref": "container",
            "x": 0.5,
            "xanchor": "center",
            "font": {"size": SMALL},
            "traceorder": "normal",
            "itemclick": False,
            "itemdoubleclick": False,
            "entrywidth": round(entry),
            "entrywidthmode": "pixels",
        },
        meta={"height": height, "entries": len(names) if legend and len(names) > 1 else 0, "entry": round(entry)},
    )
    figure.update_xaxes(
        gridcolor=GRID,
        zeroline=False,
        linecolor=SOFT,
        tickfont={"size": SMALL},
        fixedrange=True,
        separatethousands=True,
        exponentformat="none",
        title={"font": {"size": SMALL}, "standoff": 8},
        ticks="outside",
        tickcolor=SOFT,
        ticklen=4,
    )
    figure.update_yaxes(
        gridcolor=GRID,
        zeroline=False,
        linecolor=SOFT,
        tickfont={"size": SMALL},
        fixedrange=True,
        separatethousands=True,
        exponentformat="none",
        title={"font": {"size": SMALL}},
    )
    return figure


class Rows:
    """Rows in groups, one below the other, each named above itself: places in pixels from the top."""

    def __init__(self) -> None:
        self._at = 0.0
        self._headings: list[tuple[float, list[str], bool]] = []

    def group(self, title: str) -> None:
        """Begin a group; "" for one without a name."""
        if self._at:
            self._at += GAP
        if title:
            self._heading(title, strong=True)

    def row(self, label: str = "") -> float:
        """Add a row, with its name above if it has one; returns the place of its middle."""
        if label:
            self._heading(label, strong=False)
        middle = self._at + BAR / 2
        self._at += BAR + (6 if label else 0)
        return middle

    def _heading(self, text: str, strong: bool) -> None:
        lines = in_lines(text, STRONG_LINE if strong else PHONE_LINE)
        self._headings.append((self._at, lines, strong))
        self._at += HEADING - (0 if strong else 2) + LINE * (len(lines) - 1)

    @property
    def height(self) -> int:
        """What all rows take."""
        return math.ceil(self._at + GAP)

    def write(self, figure: go.Figure) -> None:
        """Name the rows, and turn the figure's vertical axis into pixels without marks."""
        for at, lines, strong in self._headings:
            text = "<br>".join(lines)
            figure.add_annotation(
                x=0,
                xref="paper",
                xanchor="left",
                y=at,
                yanchor="top",
                text=f"<b>{text}</b>" if strong else text,
                showarrow=False,
                align="left",
                font={"size": SMALL},
                bgcolor=BACK,
                borderpad=0,
            )
        figure.update_yaxes(range=[self.height, 0], showgrid=False, showticklabels=False, showline=False)


def log_ticks(low: float, high: float, unit: str = "", most: int = 8) -> dict:
    """Marks of a logarithmic axis."""
    marks, texts = log_marks(low, high, unit, most)
    return {"tickvals": marks, "ticktext": texts}


def logarithmic(figure: go.Figure, low: float, high: float, unit: str) -> None:
    """Make the horizontal axis logarithmic, from a little below `low` to a little above `high`."""
    room = (high / low) ** 0.04
    figure.update_xaxes(
        type="log",
        range=[math.log10(low / room), math.log10(high * room)],
        **log_ticks(low / room, high * room, unit, most=6),
    )
