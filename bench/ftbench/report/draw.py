"""Charts and their pictures. A picture has either curves, or rows, which each show one value as a
bar or a mark.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

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
    SOFT,
    TEXT,
    WIDTH,
    Legend,
)
from ftbench.report.tables import Table

# The margin left of the plot, and the plot's width; the last mark needs some room on the right.
MARGIN, PLOT = 6, WIDTH - 32
CURVE_HEIGHT = 220
# Curves of more points have this number of marks, and bands for their ranges.
MOST_MARKS = 12
# Factor by which an axis of ratios may reach beyond the smallest and the largest ratio.
WIDEST = 10
# No axis reaches further: matplotlib computes with values beyond the end, which must not overflow.
MOST = 1e300
IDEAL = {"color": TEXT, "linewidth": 1.5, "linestyle": ":"}


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
    """Values of single trials or machines, drawn as dots."""
    shown: bool = True
    """False if the value is a ratio that is not shown to differ from 1."""

    @property
    def room(self) -> float:
        """Fraction of the plot's width that is left for the bar or mark if `text` stands to the
        right of it.
        """
        return 1 - min(0.6, (10 + LETTER * len(self.text)) / PLOT)

    @property
    def ends(self) -> list[float]:
        """All places on the horizontal axis where the row draws something."""
        return [
            end
            for end in (self.value, self.begin, self.low, self.high, *self.dots)
            if end is not None
        ]


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
        return [row for _, group in self.groups for row in group]

    @property
    def logarithmic(self) -> bool:
        """True if the rows are marks on a logarithmic axis."""
        bars = [row.value for row in self.rows if not (row.begin or row.dots)]
        return self.ratios or (len(bars) == len(self.rows) and style.far_apart(bars))

    @property
    def height(self) -> float:
        """Height of the picture in pixels."""
        return self._places()[2] + style.BELOW

    def _places(
        self,
    ) -> tuple[list[tuple[float, str, dict]], list[tuple[float, float, Row]], float]:
        """Return (texts, rows, height) of the layout, in pixels from the top of the picture.

        A text is (top, string, style). A row is (top, middle of its bar or mark, row).
        """
        texts, rows, at = [], [], 0.0
        for title, group in self.groups:
            at += GAP if at else 0
            for line in style.wrapped(title, style.LINE_LETTERS - 4):
                texts.append((at, line, {"weight": "bold"}))
                at += LINE
            for row in group:
                begin = at
                for text, colour in ((row.label, TEXT), (row.detail, SOFT)):
                    for line in style.wrapped(text):
                        texts.append((at, line, {"color": colour}))
                        at += LINE
                rows.append((begin, at + BAR / 2 + 1, row))
                at += BAR + 12
        return texts, rows, at

    def draw(self, figure: Figure, left: float, top: float) -> None:
        """Draw the picture with its top left corner at (`left`, `top`)."""
        texts, places, height = self._places()
        axes = style.place(figure, left + MARGIN, top, PLOT, height)
        axes.spines["left"].set_visible(False)
        axes.set_ylim(height, 0)
        axes.set_yticks([])
        axes.set_xlabel(style.cut(self.unit))
        self._scale(axes)
        across = axes.get_yaxis_transform()
        for at, text, text_style in texts:
            axes.text(0, at, text, va="top", transform=across, **text_style)
        for begin, middle, row in places:
            # Lines beside the bar or mark alone: none crosses a text.
            ends = middle - BAR / 2 - 1, middle + BAR / 2 + 6
            axes.vlines(axes.get_xticks(), *ends, color=GRID, linewidth=0.8, zorder=0.5)
            if self.ratios:
                axes.vlines(1, *ends, color=TEXT, linewidth=1, zorder=0.6)
            if self.ideal is not None:
                axes.vlines(self.ideal, *ends, zorder=0.6, **IDEAL)
            (_mark if self.logarithmic else _bar)(axes, middle, row)
            behind = {"xytext": (6, 0), "textcoords": "offset points", "va": "center_baseline"}
            axes.annotate(
                style.cut(row.text), (max(row.ends), middle), annotation_clip=False, **behind
            )
            whole = Rectangle(
                (0, begin),
                1,
                middle + BAR / 2 - begin,
                transform=across,
                fill=False,
                linewidth=0,
                zorder=9,
            )
            style.hover(axes.add_patch(whole), row.hover)

    def _scale(self, axes: Axes) -> None:
        if self.logarithmic:
            low, high, marks, texts = self._logarithmic_scale()
            axes.set_xscale("log")
            axes.minorticks_off()
        else:
            low = min(end for row in self.rows for end in row.ends)
            high = max(
                (self.ideal or 0) * 1.05,
                *(low + (max(row.ends) - low) / row.room for row in self.rows),
            )
            high = min(high, MOST) if high > low else low + 1
            marks, texts = style.round_marks(low, high, 4)
        axes.set_xlim(low, high)
        axes.set_xticks(marks, texts)

    def _logarithmic_scale(self) -> tuple[float, float, list[float], list[str]]:
        """Return (low, high, marks, labels) of a logarithmic axis."""
        values = [row.value for row in self.rows]
        if self.ratios:
            values.append(1.0)
        if self.ideal:
            values.append(self.ideal)
        intervals = [end for row in self.rows for end in (row.low, row.high) if end is not None]
        ends = intervals + values
        # Two rounds can give intervals over many powers of ten:
        # cut off intervals, but no value and no line.
        low = max(min(ends), min(values) / WIDEST) * 0.85
        high = min(min(max(ends), max(values) * WIDEST) / 0.85, MOST)
        if self.ratios:
            marks = style.ratio_marks(low, high)
            return low, high, marks, [f"{mark:g}x" for mark in marks]
        wide = max(math.log(min(max(row.ends), high) / low) / row.room for row in self.rows)
        high = max(low * math.exp(min(wide, math.log(MOST / low))), (self.ideal or 0) * 1.05)
        return low, high, *style.log_marks(low, high, self.unit)


def _bar(axes: Axes, y: float, row: Row) -> None:
    begin, end = sorted((row.begin, row.value))
    width = max(end - begin, axes.get_xlim()[1] * 0.003)  # show a thin bar even if nothing changed
    look = {
        "facecolor": COLOURS[row.config],
        "hatch": LOOKS[row.variant].hatch,
        "edgecolor": BACK,
        "linewidth": 0,
    }
    axes.add_patch(Rectangle((begin, y - BAR / 2 + 1), width, BAR - 2, zorder=2, **look))
    axes.plot(
        row.dots, [y] * len(row.dots), "o", color=TEXT, markersize=3.5, alpha=0.6, markeredgewidth=0
    )
    _whisker(axes, y, row, TEXT)


def _mark(axes: Axes, y: float, row: Row) -> None:
    colour = COLOURS.get(row.config, SHOWN if row.shown else SOFT)
    mark = LOOKS[row.variant].mark if row.variant else "o"
    _whisker(axes, y, row, colour)
    face = colour if row.shown else BACK
    axes.plot(row.value, y, mark, markersize=8, color=colour, mfc=face, markeredgewidth=2)


def _whisker(axes: Axes, y: float, row: Row, colour: str) -> None:
    if row.low is not None and row.low != row.high:
        axes.plot(
            [row.low, row.high], [y, y], color=colour, linewidth=1.5, marker="|", markersize=7
        )


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
        look = self.look
        if len(self.x) <= MOST_MARKS:
            axes.vlines(self.x, self.low, self.high, color=look["color"], linewidth=1.5)
        elif self.low != self.high:
            axes.fill_between(
                self.x, self.low, self.high, color=look["color"], alpha=0.18, linewidth=0
            )
        axes.plot(self.x, self.y, **{**look, "marker": ""})
        points = list(zip(self.x, self.y, self.hover, strict=True))
        for x, y, text in [*points[: -1 : math.ceil(len(points) / MOST_MARKS)], points[-1]]:
            (point,) = axes.plot(x, y, **{**look, "linestyle": ""}, markersize=7, zorder=4)
            style.hover(point, text)


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
        low, high, marks, texts = self._vertical_scale()
        margin = 14 + LETTER * max(map(len, texts))
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
        axes.set_ylim(low, high)
        axes.set_yticks(marks, texts)
        if self.marks:  # at every second place or fewer if there is no room for all texts
            texts = [style.cut(text, style.MARK_LETTERS) for text in self.marks.values()]
            step = math.ceil(LETTER * (max(map(len, texts)) + 1) * len(texts) / width)
            axes.set_xticks([*self.marks][::step], texts[::step])
        else:
            axes.set_xticks(*style.round_marks(*axes.get_xlim()))
        axes.set_xlabel(style.cut(self.over))
        above = {
            "xycoords": "axes fraction",
            "xytext": (4 - margin, 8),
            "textcoords": "offset points",
        }
        axes.annotate(style.cut(self.unit), (0, 1), **above)
        style.draw_legend(axes, self._legend(), 4 - margin)

    def _vertical_scale(self) -> tuple[float, float, list[float], list[str]]:
        """Return (low, high, marks, labels) of the vertical axis."""
        ends = [end for line in self.lines for end in (*line.low, *line.high)]
        ends += [y for _, y in self.ideal]
        if self.logarithmic:
            low, high = min(ends) / 1.1, max(ends) * 1.1
            return low, high, *style.log_marks(low, high, self.unit)
        low, high = min(0.0, *ends), min(max(0.0, *ends) * 1.08, MOST)
        if not high:
            high = 0.0 if low < 0 else 1.0
        return low, high, *style.round_marks(low, high)

    def _legend(self) -> Legend:
        entries = [(line.label, Line2D([], [], markersize=7, **line.look)) for line in self.lines]
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
