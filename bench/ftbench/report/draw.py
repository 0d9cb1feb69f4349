"""Charts and their pictures. A picture has either curves, or rows, which each show one value as a
bar or a mark.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon, Rectangle

from ftbench.report import style
from ftbench.report.style import (
    BACK,
    BAR,
    COLOURS,
    GAP,
    GRID,
    LETTER,
    LINE,
    LOOKS,
    SHOWN,
    SLOWER,
    SOFT,
    TEXT,
    WIDTH,
    Legend,
    Marks,
)
from ftbench.report.tables import Table

# The margin left of the plot, and the plot's width; the last mark needs some room on the right.
MARGIN, PLOT = 6, WIDTH - 32
CURVE_HEIGHT = 220
# The longest head of a step's arrow, in pixels.
HEAD = 8
# Curves of more points have this number of marks, and bands for their ranges.
MOST_MARKS = 12
# The most charts of single cases that are shown; others are shown on request.
MOST_FACETS = 4
# Factor by which an axis of ratios may reach beyond the smallest and the largest ratio.
WIDEST = 10
# No axis reaches further: matplotlib computes with values beyond the end, which must not overflow.
MOST = 1e300
IDEAL = {"color": TEXT, "linewidth": 1.5, "linestyle": ":"}


class Scale(NamedTuple):
    """Scale of an axis: its ends, and its marks with their labels."""

    low: float
    high: float
    marks: list[float]
    labels: list[str]


@dataclass(frozen=True)
class Row:
    """One row of a picture: a value with its range, drawn as a bar or a mark."""

    label: str
    """Written above the value."""
    value: float
    low: float | None
    high: float | None
    hover: str
    config: str = ""
    variant: str = ""
    detail: str = ""
    """Written below the label."""
    text: str = ""
    """Written to the right of the value."""
    begin: float = 0.0
    """Value at which the bar starts."""
    dots: tuple[float, ...] = ()
    """Values of single trials or machines, drawn as dots below the bar."""
    is_step: bool = False
    """True for a change from `begin` to `value`, which is drawn as an arrow."""
    shown: bool = True
    """False if the value is a ratio, or a step, that is not shown to differ from no change."""

    @property
    def room(self) -> float:
        """Fraction of the plot's width that is left for the bar or mark if `text` stands to the
        right of it.
        """
        return 1 - min(0.6, (10 + LETTER * len(self.text)) / PLOT)

    @property
    def ends(self) -> list[float]:
        """All places on the horizontal axis where the row draws something."""
        places = self.value, self.begin, self.low, self.high, *self.dots
        return [place for place in places if place is not None]

    @property
    def colours(self) -> tuple[str, str]:
        """Colours of the bar's face, and of its edge and hatching. Only what is shown is filled."""
        colour = COLOURS[self.config]
        if not self.shown:
            return BACK, colour
        if self.is_step and self.value < self.begin:
            colour = SLOWER
        return colour, BACK


class Text(NamedTuple):
    """One line of text in a picture of rows."""

    top: float
    """Pixels from the top of the picture."""
    text: str
    style: dict[str, Any]
    """Arguments for matplotlib."""


class Place(NamedTuple):
    """The place of a row, in pixels from the top of the picture."""

    begin: float
    middle: float
    """Middle of the bar or mark."""
    row: Row

    @property
    def end(self) -> float:
        """Lower end of the bar or mark."""
        return self.middle + BAR / 2

    @property
    def ends(self) -> tuple[float, float]:
        """Ends of vertical lines, which cross the bar or mark and no text."""
        return self.middle - BAR / 2 - 1, self.end + 6


@dataclass(frozen=True)
class Rows:
    """Picture of rows, one below the other, in groups that each have a title.

    A row is a bar with its range and dots, or a mark on a logarithmic axis. Ratios are marks,
    filled if shown to differ from 1. Values that are far apart are marks, too: small bars could not
    be seen. A dotted line is at `ideal`.
    """

    groups: Sequence[tuple[str, Sequence[Row]]]
    unit: str
    ratios: bool = False
    ideal: float | None = None

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups."""
        rows: list[Row] = []
        for _, group in self.groups:
            rows += group
        return rows

    @property
    def logarithmic(self) -> bool:
        """True if the rows are marks on a logarithmic axis."""
        if self.ratios:
            return True
        bars = [row.value for row in self.rows if not (row.begin or row.dots)]
        return len(bars) == len(self.rows) and style.far_apart(bars)

    @property
    def height(self) -> float:
        """Height of the picture in pixels."""
        _, _, height = self._layout()
        return height + style.BELOW

    def _layout(self) -> tuple[list[Text], list[Place], float]:
        """Return (texts, places of the rows, height) of the picture without its axis."""
        texts: list[Text] = []
        places = []
        top = 0.0
        for title, group in self.groups:
            top += GAP if top else 0
            for line in style.wrapped(title, style.LINE_LETTERS - 4):
                texts.append(Text(top, line, {"weight": "bold"}))
                top += LINE
            for row in group:
                begin, lines = top, _texts(row, top)
                texts += lines
                top += len(lines) * LINE
                places.append(Place(begin, top + BAR / 2 + 1, row))
                top += BAR + 12
        return texts, places, top

    def draw(self, figure: Figure, left: float, top: float) -> None:
        """Draw the picture with its top left corner at (`left`, `top`)."""
        texts, places, height = self._layout()
        axes = style.place(figure, left + MARGIN, top, PLOT, height)
        axes.spines["left"].set_visible(False)
        axes.set_ylim(height, 0)
        axes.set_yticks([])
        axes.set_xlabel(style.cut(self.unit))
        self._set_scale(axes)
        across = axes.get_yaxis_transform()
        for line in texts:
            axes.text(0, line.top, line.text, va="top", transform=across, **line.style)
        for place in places:
            self._draw_lines(axes, place)
            self._draw_row(axes, place)
            whole = Rectangle(
                (0, place.begin),
                width=1,
                height=place.end - place.begin,
                transform=across,
                fill=False,
                linewidth=0,
                zorder=9,
            )
            style.hover(axes.add_patch(whole), place.row.hover)

    def _draw_lines(self, axes: Axes, place: Place) -> None:
        axes.vlines(axes.get_xticks(), *place.ends, color=GRID, linewidth=0.8, zorder=0.5)
        if self.ratios:
            axes.vlines(1, *place.ends, color=TEXT, linewidth=1, zorder=0.6)
        if self.ideal is not None:
            axes.vlines(self.ideal, *place.ends, zorder=0.6, **IDEAL)

    def _draw_row(self, axes: Axes, place: Place) -> None:
        row, middle = place.row, place.middle
        draw = _mark if self.logarithmic else _bar
        draw(axes, middle, row)
        axes.annotate(
            style.cut(row.text),
            (max(row.ends), middle),
            annotation_clip=False,
            xytext=(6, 0),
            textcoords="offset points",
            va="center_baseline",
        )

    def _set_scale(self, axes: Axes) -> None:
        if self.logarithmic:
            scale = self._logarithmic_scale()
            axes.set_xscale("log")
            axes.minorticks_off()
        else:
            scale = self._linear_scale()
        axes.set_xlim(scale.low, scale.high)
        axes.set_xticks(scale.marks, scale.labels)

    def _linear_scale(self) -> Scale:
        low = min(min(row.ends) for row in self.rows)
        high = 1.05 * (self.ideal or 0)
        for row in self.rows:
            high = max(high, low + (max(row.ends) - low) / row.room)
        high = min(high, MOST) if high > low else low + 1
        return Scale(low, high, *style.round_marks(low, high, 4))

    def _logarithmic_scale(self) -> Scale:
        values = [row.value for row in self.rows]
        if self.ratios:
            values.append(1.0)
        if self.ideal:
            values.append(self.ideal)
        ends = list(values)
        for row in self.rows:
            ends += [end for end in (row.low, row.high) if end is not None]
        # Two rounds can give intervals over many powers of ten:
        # cut off intervals, but no value and no line.
        low = max(min(ends), min(values) / WIDEST) * 0.85
        high = min(max(ends), max(values) * WIDEST) / 0.85
        high = min(high, MOST)
        if self.ratios:
            marks = style.ratio_marks(low, high)
            return Scale(low, high, marks, [f"{mark:g}x" for mark in marks])
        # Room for the texts to the right of the values.
        width = 0.0
        for row in self.rows:
            end = min(max(row.ends), high)
            width = max(width, math.log(end / low) / row.room)
        width = min(width, math.log(MOST / low))
        high = max(low * math.exp(width), (self.ideal or 0) * 1.05)
        return Scale(low, high, *style.log_marks(low, high, self.unit))


def _texts(row: Row, top: float) -> list[Text]:
    """Return the lines of text above a row's bar or mark; *top*: see Text.top."""
    lines = [(line, TEXT) for line in style.wrapped(row.label)]
    lines += [(line, SOFT) for line in style.wrapped(row.detail)]
    texts = []
    for number, (line, colour) in enumerate(lines):
        texts.append(Text(top + number * LINE, line, {"color": colour}))
    return texts


def _bar(axes: Axes, y: float, row: Row) -> None:
    face, edge = row.colours
    outline = 0.0 if row.shown else 1.5
    axes.add_patch(
        Polygon(
            _outline(axes, y, row),
            zorder=2,
            facecolor=face,
            hatch=LOOKS[row.variant].hatch,
            edgecolor=edge,
            linewidth=outline,
        )
    )
    # Below the bar: to the right of it, they would look like part of the text.
    heights = [y + BAR / 2 + 2] * len(row.dots)
    axes.plot(row.dots, heights, "o", color=TEXT, markersize=3.5, alpha=0.6, markeredgewidth=0)
    _whisker(axes, y, row, TEXT)


def _outline(axes: Axes, y: float, row: Row) -> list[tuple[float, float]]:
    """Return the corners of a bar, or of an arrow to the new value of a step."""
    low, high = axes.get_xlim()
    top, bottom = y - BAR / 2 + 1, y + BAR / 2 - 1
    # Show a thin bar even if nothing changed.
    length = row.value - row.begin
    length = math.copysign(max(abs(length), high * 0.003), length)
    end = row.begin + length
    if not row.is_step:
        return [(row.begin, top), (end, top), (end, bottom), (row.begin, bottom)]
    head = math.copysign(min(abs(length), HEAD * (high - low) / PLOT), length)
    neck = end - head
    return [(row.begin, top), (neck, top), (end, y), (neck, bottom), (row.begin, bottom)]


def _mark(axes: Axes, y: float, row: Row) -> None:
    colour = COLOURS.get(row.config, SHOWN if row.shown else SOFT)
    mark = LOOKS[row.variant].mark if row.variant else "o"
    _whisker(axes, y, row, colour)
    face = colour if row.shown else BACK
    axes.plot(row.value, y, mark, markersize=8, color=colour, mfc=face, markeredgewidth=2)


def _whisker(axes: Axes, y: float, row: Row, colour: str) -> None:
    if row.low is None or row.low == row.high:
        return
    ends = [row.low, row.high]
    axes.plot(ends, [y, y], color=colour, linewidth=1.5, marker="|", markersize=7)


@dataclass(frozen=True)
class Line:
    """One curve, with the range of each point."""

    config: str
    variant: str
    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    hover: Sequence[str]

    @property
    def look(self) -> dict:
        """Arguments for matplotlib: the curve's colour, dashes and mark."""
        variant = LOOKS[self.variant]
        colour = COLOURS.get(self.config, SHOWN)
        return {"color": colour, "linewidth": 2, "linestyle": variant.dash, "marker": variant.mark}

    def draw(self, axes: Axes) -> None:
        """Draw the curve with its ranges and marks."""
        self._draw_ranges(axes)
        line = {**self.look, "marker": ""}
        axes.plot(self.x, self.y, **line)
        mark = {**self.look, "linestyle": "", "markersize": 7, "zorder": 4}
        points = list(zip(self.x, self.y, self.hover, strict=True))
        step = math.ceil(len(points) / MOST_MARKS)
        for x, y, text in [*points[:-1:step], points[-1]]:
            (point,) = axes.plot(x, y, **mark)
            style.hover(point, text)

    def _draw_ranges(self, axes: Axes) -> None:
        if self.low == self.high:
            return
        ranges, colour = (self.x, self.low, self.high), self.look["color"]
        if len(self.x) > MOST_MARKS:
            axes.fill_between(*ranges, color=colour, alpha=0.18, linewidth=0)
            return
        axes.vlines(*ranges, color=colour, linewidth=1.5)
        for ends in (self.low, self.high):
            axes.plot(self.x, ends, "_", color=colour, markersize=7)


@dataclass(frozen=True)
class Curves:
    """Picture of curves over cases, workers or the course of a trial.
    A dotted line joins the points `ideal`.
    """

    lines: Sequence[Line]
    over: str
    """Title of the horizontal axis."""
    unit: str
    marks: Mapping[float, str] = field(default_factory=dict)
    """{value on the horizontal axis: label at this place}; if empty,
    the axis has marks at round figures.
    """
    logarithmic_x: bool = False
    logarithmic: bool = False
    ideal: Sequence[tuple[float, float]] = ()

    @property
    def height(self) -> float:
        """Height of the picture with its legend, in pixels."""
        return LINE + 10 + CURVE_HEIGHT + style.BELOW + style.legend_height(self._legend())

    def draw(self, figure: Figure, left: float, top: float) -> None:
        """Draw the picture with its top left corner at (`left`, `top`)."""
        scale = self._vertical_scale()
        margin = 14 + LETTER * max(map(len, scale.labels))
        width = WIDTH - 20 - margin
        axes = style.place(figure, left + margin, top + LINE + 10, width, CURVE_HEIGHT)
        axes.grid(color=GRID, linewidth=0.8)
        if self.ideal:
            axes.plot(*zip(*self.ideal, strict=True), **IDEAL)
        for line in self.lines:
            line.draw(axes)
        if self.logarithmic:
            axes.set_yscale("log")
        if self.logarithmic_x:
            axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_ylim(scale.low, scale.high)
        axes.set_yticks(scale.marks, scale.labels)
        axes.set_xticks(*self._horizontal_marks(axes, width))
        axes.set_xlabel(style.cut(self.over))
        axes.annotate(
            style.cut(self.unit),
            (0, 1),
            xycoords="axes fraction",
            xytext=(4 - margin, 8),
            textcoords="offset points",
        )
        style.draw_legend(axes, self._legend(), 4 - margin)

    def _horizontal_marks(self, axes: Axes, width: float) -> Marks:
        """Return the marks of the horizontal axis, which is *width* pixels long."""
        if not self.marks:
            return style.round_marks(*axes.get_xlim())
        texts = [style.cut(text, style.MARK_LETTERS) for text in self.marks.values()]
        # At every second place or fewer if there is no room for all texts.
        longest = max(map(len, texts))
        step = math.ceil(LETTER * (longest + 1) * len(texts) / width)
        return [*self.marks][::step], texts[::step]

    def _vertical_scale(self) -> Scale:
        ends = [y for _, y in self.ideal]
        for line in self.lines:
            ends += [*line.low, *line.high]
        if self.logarithmic:
            low, high = min(ends) / 1.1, max(ends) * 1.1
            return Scale(low, high, *style.log_marks(low, high, self.unit))
        low, high = min(0.0, *ends), min(max(0.0, *ends) * 1.08, MOST)
        if not high:
            high = 0.0 if low < 0 else 1.0
        return Scale(low, high, *style.round_marks(low, high))

    def _legend(self) -> Legend:
        entries = []
        for line in self.lines:
            entries.append((line.label, Line2D([], [], markersize=7, **line.look)))
        if self.ideal:
            entries.append(("ideal", Line2D([], [], **IDEAL)))
        return entries if len(entries) > 1 else []


@dataclass(frozen=True)
class Chart:
    """One chart of the HTML page: its title and caption,
    its picture, and the table of its figures.
    """

    name: str
    """Name of the chart in the page's ids."""
    title: str
    caption: str
    """Help for reading the picture."""
    picture: Rows | Curves
    table: Table
    folded: str = ""
    """Subject of a chart that the page shows only on request;
    empty for a chart that is always shown.
    """
