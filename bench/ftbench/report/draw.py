"""Charts and their pictures: values in rows, one below the other (bars, waterfalls, ratios, boxes), and curves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from ftbench.report import run_words, style
from ftbench.report.style import BACK, BAR, COLOURS, GAP, GRID, LETTER, LINE, LOOKS, SHOWN, SOFT, TEXT, WIDTH, Legend
from ftbench.report.tables import Table

# The margin left of the plot, and the plot's width; the last mark needs some room on the right.
MARGIN, PLOT = 6, WIDTH - 32
# Behind texts, so that no line crosses them.
BEHIND = {"facecolor": BACK, "edgecolor": "none", "pad": 0}
CURVE_HEIGHT = 220
# Curves of more points have this number of marks, and bands for their ranges.
MOST_MARKS = 12
# If a bar is this many times as long as most, the others could not be told apart next to it.
TOO_FAR = 50
# How far an axis of ratios reaches beyond the smallest and the largest, as a factor.
WIDEST = 10
# No axis reaches further: matplotlib computes with what is beyond.
MOST = 1e300
IDEAL = {"color": TEXT, "linewidth": 1.5, "linestyle": ":"}
TARGET_MARK = {"linestyle": "", "marker": "|", "markersize": 16, "markeredgewidth": 3, "color": style.TARGET}


@dataclass(frozen=True)
class Row:
    """A value with its range, in a picture of rows."""

    label: str
    """Written above the value. If empty, the legend names the value's candidate."""
    value: float
    low: float | None
    high: float | None
    hover: str
    config: str = ""
    variant: str = ""
    detail: str = ""
    """Written below the label."""
    text: str = ""
    """Written behind the value."""
    begin: float = 0.0
    """Where its bar begins."""
    dots: tuple[float, ...] = ()
    """Single values, of one process each."""
    quartiles: tuple[float, float] = (0.0, 0.0)
    shown: bool = True
    """Of a ratio: whether a difference is shown."""
    target: float | None = None
    """Of a ratio: what was wanted."""

    @property
    def written(self) -> float:
        """Width of the text behind the value, as a part of the plot's width."""
        return min(0.6, (10 + LETTER * len(self.text)) / PLOT)

    @property
    def ends(self) -> list[float]:
        """All values that are drawn, except the target."""
        return [end for end in (self.value, self.begin, self.low, self.high, *self.dots) if end is not None]


@dataclass(frozen=True)
class Rows:
    """Rows in groups, one below the other, each group with its name above."""

    groups: Sequence[tuple[str, Sequence[Row]]]
    unit: str

    @property
    def rows(self) -> list[Row]:
        """The rows of all groups."""
        return [row for _, group in self.groups for row in group]

    @property
    def height(self) -> float:
        """Height of the picture with its legend, in pixels."""
        return self._places()[2] + style.BELOW + style.legend_height(self._legend())

    def _places(self) -> tuple[list[tuple[float, str, dict]], list[tuple[float, float, Row]], float]:
        """Return texts (place, text, look), rows (start, middle, row), and the height of all rows."""
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
                at += BAR + (12 if row.label else 4)
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
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        across = axes.get_yaxis_transform()
        for at, text, how in texts:
            axes.text(0, at, text, va="top", transform=across, bbox=BEHIND, **how)
        for begin, middle, row in places:
            self._paint(axes, middle, row)
            behind = {"xytext": (6, 0), "textcoords": "offset points", "va": "center_baseline"}
            axes.annotate(style.cut(row.text), (max(row.ends), middle), annotation_clip=False, **behind)
            whole = Rectangle(
                (0, begin), 1, middle + BAR / 2 - begin, transform=across, fill=False, linewidth=0, zorder=9
            )
            style.hover(axes.add_patch(whole), row.hover)
        style.draw_legend(axes, self._legend(), 0)

    def _scale(self, axes: Axes) -> None:
        raise NotImplementedError

    def _paint(self, axes: Axes, y: float, row: Row) -> None:
        raise NotImplementedError

    def _legend(self) -> Legend:
        return []

    def _linear(self, axes: Axes, low: float, high: float = 0.0) -> None:
        """Set the axis to `low` to at least `high`, with room for the texts behind the values."""
        high = max(high, *(low + (max(row.ends) - low) / (1 - row.written) for row in self.rows))
        high = min(high, MOST) if high > low else low + 1
        axes.set_xlim(low, high)
        axes.set_xticks(*style.round_marks(low, high, 4))

    def _logarithmic(self, axes: Axes, low: float) -> None:
        """Set a logarithmic axis from a little below `low`, with room for the texts behind the values."""
        wide = math.log10(low), max(math.log10(max(row.ends) / low) / (1 - row.written) for row in self.rows)
        high = 10 ** min(sum(wide), math.log10(MOST))
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xlim(low * (low / high) ** 0.08, high)
        axes.set_xticks(*style.log_marks(low, high, self.unit))
        axes.set_xlabel(style.cut(f"{self.unit}, logarithmic"))


@dataclass(frozen=True)
class Bars(Rows):
    """Bars with their ranges and dots, and a dotted line at `ideal`; marks, if bars would be too far apart."""

    ideal: float | None = None

    @property
    def _least(self) -> float:
        """The lowest end of all values and ranges."""
        return min(end for row in self.rows for end in (row.value, row.low) if end is not None)

    @property
    def _far(self) -> bool:
        values = sorted(row.value for row in self.rows)
        from_zero = all(row.begin == 0 and not row.dots for row in self.rows)
        return from_zero and self.ideal is None and self._least > 0 and values[-1] > TOO_FAR * values[len(values) // 2]

    def _scale(self, axes: Axes) -> None:
        if self._far:
            self._logarithmic(axes, self._least)
            return
        self._linear(axes, 0, (self.ideal or 0) * 1.05)
        if self.ideal is not None:
            axes.axvline(self.ideal, **IDEAL)

    def _paint(self, axes: Axes, y: float, row: Row) -> None:
        if axes.get_xscale() == "log":
            axes.plot(row.value, y, **_mark(row.config, row.variant))
        else:
            # A bar of a change that is none is still to be seen.
            begin, end = sorted((row.begin, row.value))
            _bar(axes, y, begin, max(end, begin + axes.get_xlim()[1] * 0.003), row)
            axes.plot(row.dots, [y] * len(row.dots), "o", color=TEXT, markersize=3.5, alpha=0.6, markeredgewidth=0)
        _whisker(axes, y, row)

    def _legend(self) -> Legend:
        named = dict.fromkeys((row.config, row.variant) for row in self.rows if not row.label)
        found = sorted(named, key=lambda series: list(COLOURS).index(series[0]))
        if len(found) < 2:
            return []
        far = self._far
        return [
            (run_words.label(*series), Line2D([], [], **_mark(*series)) if far else Patch(**_filled(*series)))
            for series in found
        ]


def _mark(config: str, variant: str) -> dict:
    return {"linestyle": "", "marker": LOOKS[variant].mark, "markersize": 9, "color": COLOURS[config]}


@dataclass(frozen=True)
class Ratios(Rows):
    """Ratios with their intervals on a logarithmic axis, filled where a difference is shown."""

    def _scale(self, axes: Axes) -> None:
        middle = [*(row.value for row in self.rows), 1.0]
        every = [end for row in self.rows for end in (row.low, row.high, row.target) if end is not None] + middle
        # Two rounds can give intervals over many powers of ten; these leave the picture, the ratios stay.
        least = max(min(every), min(middle) / WIDEST) * 0.85
        most = min(max(every), max(middle) * WIDEST) / 0.85
        axes.set_xscale("log")
        axes.set_xlim(least, most)
        marks = style.ratio_marks(least, most)
        axes.set_xticks(marks, [f"{mark:g}x" for mark in marks])
        axes.minorticks_off()
        axes.axvline(1, color=TEXT, linewidth=1)

    def _paint(self, axes: Axes, y: float, row: Row) -> None:
        _whisker(axes, y, row, SHOWN if row.shown else SOFT)
        axes.plot(row.value, y, **_dot(row.shown))
        if row.target is not None:
            axes.plot(row.target, y, **TARGET_MARK)

    def _legend(self) -> Legend:
        found = [("a difference is shown", _dot(True)), ("none is shown", _dot(False))]
        if any(row.target is not None for row in self.rows):
            found.append(("target", TARGET_MARK))
        return [(name, Line2D([], [], **mark)) for name, mark in found]


def _dot(filled: bool) -> dict:
    colour = SHOWN if filled else SOFT
    face = colour if filled else BACK
    return {"linestyle": "", "marker": "o", "markersize": 8, "color": colour, "mfc": face, "markeredgewidth": 2}


@dataclass(frozen=True)
class Boxes(Rows):
    """Boxes from the lower to the upper quartile, with the median, and lines from `low` to `high`."""

    def _scale(self, axes: Axes) -> None:
        low, high = min(row.low or 0.0 for row in self.rows), max(row.high or 0.0 for row in self.rows)
        if low > 0 and style.far_apart([low, high]):
            self._logarithmic(axes, low)
        else:
            self._linear(axes, min(0.0, low))

    def _paint(self, axes: Axes, y: float, row: Row) -> None:
        _whisker(axes, y, row)
        _bar(axes, y, *row.quartiles, row)
        axes.plot([row.value] * 2, [y - BAR / 2 + 1, y + BAR / 2 - 1], color=TEXT, linewidth=2)


def _bar(axes: Axes, y: float, begin: float, end: float, row: Row) -> None:
    how = _filled(row.config, row.variant)
    axes.add_patch(Rectangle((begin, y - BAR / 2 + 1), end - begin, BAR - 2, zorder=2, **how))


def _filled(config: str, variant: str) -> dict:
    return {"facecolor": COLOURS[config], "hatch": LOOKS[variant].hatch, "edgecolor": BACK, "linewidth": 0}


def _whisker(axes: Axes, y: float, row: Row, colour: str = TEXT) -> None:
    if row.low is not None and row.low != row.high:
        axes.plot([row.low, row.high], [y, y], color=colour, linewidth=1.5, marker="|", markersize=7)


@dataclass(frozen=True)
class Line:
    """One curve with its range."""

    config: str
    variant: str
    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    hover: Sequence[str]
    mark: int = 0
    """Tells lines of the same series apart: the number of workers, by place."""


@dataclass(frozen=True)
class Axis:
    """The horizontal axis of curves; without values it is marked at round figures."""

    title: str
    values: Sequence[float] = ()
    texts: Sequence[str] = ()
    logarithmic: bool = False


@dataclass(frozen=True)
class Curves:
    """Curves over cases, workers or the course of a trial; the (x, y) of `ideal` are a dotted line."""

    lines: Sequence[Line]
    axis: Axis
    unit: str
    logarithmic: bool = False
    most: float | None = None
    """The least upper end of the vertical axis."""
    ideal: Sequence[tuple[float, float]] = ()

    @property
    def height(self) -> float:
        """Height of the picture with its legend, in pixels."""
        return LINE + 10 + CURVE_HEIGHT + style.BELOW + style.legend_height(self._legend())

    def draw(self, figure: Figure, left: float, top: float) -> None:
        """Draw the picture with its top left corner at (`left`, `top`)."""
        ends = [end for line in self.lines for end in (*line.low, *line.high)] + [y for _, y in self.ideal]
        ends += [self.most] if self.most else []
        if self.logarithmic:
            low, high = min(ends) / 1.1, max(ends) * 1.1
            marks, texts = style.log_marks(low, high, self.unit)
        else:
            low, high = min(0.0, *ends), min(max(0.0, *ends) * 1.08, MOST)
            high = high or (0.0 if low < 0 else 1.0)
            marks, texts = style.round_marks(low, high)
        margin = 14 + LETTER * max(map(len, texts))
        axes = style.place(figure, left + margin, top + LINE + 10, WIDTH - 20 - margin, CURVE_HEIGHT)
        axes.grid(color=GRID, linewidth=0.8)
        if self.ideal:
            axes.plot(*zip(*self.ideal, strict=True), **IDEAL)
        for line in self.lines:
            _draw_line(axes, line)
        if self.logarithmic:
            axes.set_yscale("log")
            axes.minorticks_off()
        axes.set_ylim(low, high)
        axes.set_yticks(marks, texts)
        self._mark(axes, WIDTH - 20 - margin)
        axes.set_xlabel(style.cut(self.axis.title))
        above = {"xycoords": "axes fraction", "xytext": (4 - margin, 8), "textcoords": "offset points"}
        axes.annotate(style.cut(self.unit), (0, 1), **above)
        style.draw_legend(axes, self._legend(), 4 - margin)

    def _mark(self, axes: Axes, width: float) -> None:
        """Mark the horizontal axis, at every second place or fewer if there is no room for all texts."""
        if self.axis.logarithmic:
            axes.set_xscale("log")
            axes.minorticks_off()
        if self.axis.values:
            texts = [style.cut(text, style.MARK_LETTERS) for text in self.axis.texts]
            step = math.ceil(LETTER * (max(map(len, texts)) + 1) * len(texts) / width)
            axes.set_xticks(self.axis.values[::step], texts[::step])
        else:
            axes.set_xticks(*style.round_marks(*axes.get_xlim()))

    def _legend(self) -> Legend:
        found = [(line.label, Line2D([], [], markersize=7, **_how(line))) for line in self.lines]
        if self.ideal:
            found.append(("ideal", Line2D([], [], **IDEAL)))
        return found if len(found) > 1 else []


def _how(line: Line) -> dict:
    colour, how = COLOURS.get(line.config, SHOWN), LOOKS[line.variant]
    face = BACK if line.mark % 2 else colour
    return {"color": colour, "linewidth": 2, "linestyle": how.dash, "marker": how.mark, "markerfacecolor": face}


def _draw_line(axes: Axes, line: Line) -> None:
    how = _how(line)
    if len(line.x) <= MOST_MARKS:
        axes.vlines(line.x, line.low, line.high, color=how["color"], linewidth=1.5)
    elif line.low != line.high:
        axes.fill_between(line.x, line.low, line.high, color=how["color"], alpha=0.18, linewidth=0)
    mark = how.pop("marker")
    axes.plot(line.x, line.y, **how)
    points = list(zip(line.x, line.y, line.hover, strict=True))
    for x, y, text in [*points[: -1 : math.ceil(len(points) / MOST_MARKS)], points[-1]]:
        (point,) = axes.plot(x, y, **{**how, "linestyle": ""}, marker=mark, markersize=7, zorder=4)
        style.hover(point, text)


@dataclass(frozen=True)
class Chart:
    """One chart of the page with its table."""

    name: str
    """Its id, and the name of its download."""
    title: str
    caption: str
    """How it is read."""
    alt: str
    """Description for screen readers."""
    picture: Rows | Curves
    table: Table
    folded: str = ""
    """Its subject, if it is only shown on request; otherwise empty."""
