"""Charts and how they look: values in rows, one below the other (bars, waterfalls, ratios, boxes), and curves.

The colours of configurations are Okabe and Ito's, which people with any kind of colour vision tell apart. Hatching,
dashes and the shape of a mark say which kind of workers, without colour.
"""

import itertools
import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from ftbench.report import words
from ftbench.report.tables import Table
from ftrun.escape import one_line

# Of the page and of what is no configuration's in charts: for light and for dark.
PALETTE = {
    "text": ("#1c1e21", "#e6e7e9"),
    "back": ("#ffffff", "#16181b"),
    "soft": ("#5a6068", "#a9b0ba"),
    "grid": ("#e4e7eb", "#30343a"),
    "card": ("#f5f6f8", "#202328"),
    "strong": ("#005a9c", "#7cc4ff"),
    "alarm": ("#b00020", "#ff8a93"),
    "shown": ("#0072b2", "#56b4e9"),
}
# Charts are drawn in the light ones.
TEXT, BACK, SOFT, GRID, ALARM, SHOWN = (PALETTE[name][0] for name in ("text", "back", "soft", "grid", "alarm", "shown"))
COLOURS = {"gil": "#e69f00", "ft-gil": "#56b4e9", "ft": "#009e73"}
TARGET = "#d55e00"
# Pixels: of a chart, of a line of text, of a bar, and between groups and charts.
WIDTH, LINE, BAR, GAP = 384, 18, 18, 14
# Below any plot: the marks of its axis and what they are of.
BELOW = 46
# A character, on average.
LETTER = 7.4
# Characters of a line of text, of a name in a legend, of a mark on an axis, and of a text for hovering.
LINE_LETTERS, NAME_LETTERS, MARK_LETTERS, HOVER_LETTERS = 50, 44, 10, 1000
MOST_LOG_MARKS = 6
RATIO_MARKS = (
    (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10),
    (0.1, 0.2, 0.5, 1, 2, 5, 10),
    (0.001, 0.01, 0.1, 1, 10, 100, 1000),
    (0.5, 0.8, 1, 1.25, 2),
    (0.8, 0.9, 1, 1.1, 1.25),
    (0.95, 1, 1.05),
    (0.99, 1, 1.01),
)
Legend = Sequence[tuple[str, Artist]]
"""Names and samples."""
# What is left of the plot, and its width; on the right the last mark needs some room.
MARGIN, PLOT = 6, WIDTH - 32
# Behind texts, so that no line crosses them.
BEHIND = {"facecolor": BACK, "edgecolor": "none", "pad": 0}
CURVE_HEIGHT = 220
# Curves of more points have a mark at so many of them, and their ranges as bands.
MOST_MARKS = 12
# Beside a bar that is so many times as long as most, the others could not be told apart.
TOO_FAR = 50
# How far an axis of ratios reaches beyond the smallest and the largest, as a factor.
WIDEST = 10
# No axis reaches further: matplotlib computes with what is beyond.
MOST = 1e300
TARGET_MARK = {"linestyle": "", "marker": "|", "markersize": 16, "markeredgewidth": 3, "color": TARGET}


@dataclass(frozen=True)
class Look:
    """How a variant looks: the hatching of bars, the dashes and marks of curves."""

    hatch: str
    dash: str | tuple
    mark: str


# By variant: those that never meet in a chart share one, for there are but eight hatchings.
LOOKS = {
    variant: look
    for look, variants in (
        (Look("", "-", "o"), ("loader-thread", "bare-thread")),
        (Look("///", (0, (4, 2)), "s"), ("loader-process", "bare-process")),
        (Look("++", (0, (7, 2)), "*"), ("loader-decode", "loader-stack")),
        (Look("xx", (0, (1, 1.5)), "X"), ("torch-process", "loader-spawn")),
        (Look("/-", "-.", "D"), ("nodes-thread", "loader-forkserver")),
        (Look("\\\\\\", (0, (7, 2, 2, 2)), "^"), ("spdl",)),
        (Look("---", (0, (3, 1)), "P"), ("spdl-samples",)),
        (Look("|||", (0, (2, 3)), "v"), ("loop", "serial")),
    )
    for variant in variants
}


@dataclass(frozen=True)
class Row:
    """A value with its range, in a picture of rows."""

    label: str
    """Written above it; without, the legend says whose it is."""
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
        """What the text behind it takes of the plot's width."""
        return min(0.6, (10 + LETTER * len(self.text)) / PLOT)

    @property
    def ends(self) -> list[float]:
        """All that is drawn of it but its target."""
        return [end for end in (self.value, self.begin, self.low, self.high, *self.dots) if end is not None]


@dataclass(frozen=True)
class Rows:
    """Rows in groups, one below the other, each group with its name above."""

    groups: Sequence[tuple[str, Sequence[Row]]]
    unit: str

    @property
    def rows(self) -> list[Row]:
        """All of them."""
        return [row for _, group in self.groups for row in group]

    @property
    def height(self) -> float:
        """All in all."""
        return self._places()[2] + BELOW + legend_height(self._legend())

    def _places(self) -> tuple[list[tuple[float, str, dict]], list[tuple[float, float, Row]], float]:
        """(place, text, how it looks), (where a row begins, its middle, it), and the height of all rows."""
        texts, rows, at = [], [], 0.0
        for title, group in self.groups:
            at += GAP if at else 0
            for line in wrapped(title, LINE_LETTERS - 4):
                texts.append((at, line, {"weight": "bold"}))
                at += LINE
            for row in group:
                begin = at
                for text, colour in ((row.label, TEXT), (row.detail, SOFT)):
                    for line in wrapped(text):
                        texts.append((at, line, {"color": colour}))
                        at += LINE
                rows.append((begin, at + BAR / 2 + 1, row))
                at += BAR + (12 if row.label else 4)
        return texts, rows, at

    def draw(self, figure: Figure, left: float, top: float) -> None:
        """Draw it, from this place on."""
        texts, places, height = self._places()
        axes = place(figure, left + MARGIN, top, PLOT, height)
        axes.spines["left"].set_visible(False)
        axes.set_ylim(height, 0)
        axes.set_yticks([])
        axes.set_xlabel(cut(self.unit))
        self._scale(axes)
        axes.grid(axis="x", color=GRID, linewidth=0.8)
        across = axes.get_yaxis_transform()
        for at, text, how in texts:
            axes.text(0, at, text, va="top", transform=across, bbox=BEHIND, **how)
        for begin, middle, row in places:
            self._paint(axes, middle, row)
            behind = {"xytext": (6, 0), "textcoords": "offset points", "va": "center_baseline"}
            axes.annotate(cut(row.text), (max(row.ends), middle), annotation_clip=False, **behind)
            whole = Rectangle(
                (0, begin), 1, middle + BAR / 2 - begin, transform=across, fill=False, linewidth=0, zorder=9
            )
            hover(axes.add_patch(whole), row.hover)
        draw_legend(axes, self._legend(), 0)

    def _scale(self, axes: Axes) -> None:
        raise NotImplementedError

    def _paint(self, axes: Axes, y: float, row: Row) -> None:
        raise NotImplementedError

    def _legend(self) -> Legend:
        return []

    def _linear(self, axes: Axes, low: float, high: float = 0.0) -> None:
        """Make the axis one from `low` to at least `high`, with room for what is written behind values."""
        high = max(high, *(low + (max(row.ends) - low) / (1 - row.written) for row in self.rows))
        high = min(high, MOST) if high > low else low + 1
        axes.set_xlim(low, high)
        axes.set_xticks(*round_marks(low, high, 4))

    def _logarithmic(self, axes: Axes, low: float) -> None:
        """Make the axis a logarithmic one from a little below `low` on, likewise."""
        wide = math.log10(low), max(math.log10(max(row.ends) / low) / (1 - row.written) for row in self.rows)
        high = 10 ** min(sum(wide), math.log10(MOST))
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xlim(low * (low / high) ** 0.08, high)
        axes.set_xticks(*log_marks(low, high, self.unit))
        axes.set_xlabel(cut(f"{self.unit}, logarithmic"))


@dataclass(frozen=True)
class Bars(Rows):
    """Bars with their ranges and dots, and a dotted line at `ideal`; marks, if bars would be too far apart."""

    ideal: float | None = None

    @property
    def _least(self) -> float:
        """What the smallest value reaches down to."""
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
            axes.axvline(self.ideal, color=TEXT, linewidth=1.5, linestyle=":")

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
            (words.label(*series), Line2D([], [], **_mark(*series)) if far else Patch(**_filled(*series)))
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
        marks = ratio_marks(least, most)
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
        if low > 0 and words.far_apart([low, high]):
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
    """What the vertical axis reaches at least."""
    ideal: Sequence[tuple[float, float]] = ()

    @property
    def height(self) -> float:
        """In pixels."""
        return LINE + 10 + CURVE_HEIGHT + BELOW + legend_height(self._legend())

    def draw(self, figure: Figure, left: float, top: float) -> None:
        """Draw it, from this place on."""
        ends = [end for line in self.lines for end in (*line.low, *line.high)] + [y for _, y in self.ideal]
        ends += [self.most] if self.most else []
        if self.logarithmic:
            low, high = min(ends) / 1.1, max(ends) * 1.1
            marks, texts = log_marks(low, high, self.unit)
        else:
            low, high = min(0.0, *ends), min(max(0.0, *ends) * 1.08, MOST)
            high = high or (0.0 if low < 0 else 1.0)
            marks, texts = round_marks(low, high)
        margin = 14 + LETTER * max(map(len, texts))
        axes = place(figure, left + margin, top + LINE + 10, WIDTH - 20 - margin, CURVE_HEIGHT)
        axes.grid(color=GRID, linewidth=0.8)
        if self.ideal:
            axes.plot(*zip(*self.ideal, strict=True), color=TEXT, linewidth=1.5, linestyle=":")
        for line in self.lines:
            _draw_line(axes, line)
        if self.logarithmic:
            axes.set_yscale("log")
            axes.minorticks_off()
        axes.set_ylim(low, high)
        axes.set_yticks(marks, texts)
        self._mark(axes, WIDTH - 20 - margin)
        axes.set_xlabel(cut(self.axis.title))
        above = {"xycoords": "axes fraction", "xytext": (4 - margin, 8), "textcoords": "offset points"}
        axes.annotate(cut(self.unit), (0, 1), **above)
        draw_legend(axes, self._legend(), 4 - margin)

    def _mark(self, axes: Axes, width: float) -> None:
        """Mark the horizontal axis, at every second place or fewer if there is no room for all texts."""
        if self.axis.logarithmic:
            axes.set_xscale("log")
            axes.minorticks_off()
        if self.axis.values:
            texts = [cut(text, MARK_LETTERS) for text in self.axis.texts]
            step = math.ceil(LETTER * (max(map(len, texts)) + 1) * len(texts) / width)
            axes.set_xticks(self.axis.values[::step], texts[::step])
        else:
            axes.set_xticks(*round_marks(*axes.get_xlim()))

    def _legend(self) -> Legend:
        found = [(line.label, Line2D([], [], markersize=7, **_how(line))) for line in self.lines]
        if self.ideal:
            found.append(("ideal", Line2D([], [], color=TEXT, linewidth=1.5, linestyle=":")))
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
        hover(point, text)


@dataclass(frozen=True)
class Chart:
    """One chart of the page with its table."""

    name: str
    """Its id, and the name of its download."""
    title: str
    caption: str
    """How it is read."""
    alt: str
    """What it shows, for who cannot see it."""
    picture: Rows | Curves
    table: Table
    folded: str = ""
    """What it is about, if it is only shown on request."""


def cut(text: str, most: int = LINE_LETTERS) -> str:
    """The beginning of a text, on one line."""
    text = one_line(text)
    return text if len(text) <= most else text[: most - 1] + "…"


def wrapped(text: str, width: int = LINE_LETTERS, most: int = 3) -> list[str]:
    """A text in at most so many lines; none of no text."""
    return textwrap.wrap(one_line(text), width, max_lines=most, placeholder=" …")


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes at a place in pixels from the figure's top left."""
    across, down = figure.get_size_inches() * 72
    axes = figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))
    axes.set_facecolor("none")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(color=SOFT, labelcolor=TEXT)
    axes.xaxis.label.set_color(TEXT)
    return axes


def round_marks(low: float, high: float, most: int = 5) -> tuple[list[float], list[str]]:
    """Marks of an axis at round figures, and their texts."""
    marks = [float(mark) for mark in MaxNLocator(most).tick_values(low, high) if low <= mark <= high]
    return marks, [f"{mark:,.5g}" for mark in marks]


def log_marks(low: float, high: float, unit: str) -> tuple[list[float], list[str]]:
    """Marks of a logarithmic axis and their texts: at 1, 2 and 5 of each power of ten, at fewer where too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for chosen in ((1, 2, 5), (1, 3), (1,)):
        marks = [m * 10.0**power for power in powers for m in chosen]
        marks = [mark for mark in marks if low / 1.001 <= mark <= high * 1.001]
        if len(marks) <= MOST_LOG_MARKS:
            break
    marks = marks[:: math.ceil(len(marks) / MOST_LOG_MARKS) or 1]
    return marks, [words.amount(mark, unit) for mark in marks]


def ratio_marks(least: float, most: float) -> Sequence[float]:
    """Marks of an axis of ratios: the first of RATIO_MARKS of which there are three in view, and room for all."""
    edge, apart = (most / least) ** 0.05, (most / least) ** 0.12
    for every in RATIO_MARKS:
        marks = [mark for mark in every if least * edge <= mark <= most / edge]
        if len(marks) >= 3 and all(b / a >= apart for a, b in itertools.pairwise(marks)):
            return marks
    return [1]


def legend_height(entries: Legend) -> float:
    """What a legend needs."""
    lines = sum(len(wrapped(name, NAME_LETTERS, 2)) for name, _ in entries)
    return 6 + math.ceil(lines / _columns(entries)) * (LINE + 3) if entries else 0


def _columns(entries: Legend) -> int:
    return 2 if max(len(name) for name, _ in entries) <= NAME_LETTERS // 2 - 3 else 1


def draw_legend(axes: Axes, entries: Legend, left: float) -> None:
    """Below the axes and what is written there, `left` pixels from theirs."""
    if not entries:
        return
    box = axes.get_position()
    across, down = axes.figure.get_size_inches() * 72
    axes.legend(
        [handle for _, handle in entries],
        ["\n".join(wrapped(name, NAME_LETTERS, 2)) for name, _ in entries],
        loc="upper left",
        bbox_to_anchor=(left / (box.width * across), -BELOW / (box.height * down)),
        ncols=_columns(entries),
        frameon=False,
        borderaxespad=0,
        borderpad=0,
        handlelength=2.2,
        labelspacing=0.35,
        labelcolor=TEXT,
    )


def hover(artist: Artist, text: str) -> None:
    """Have a text shown when the pointer is on something: it becomes a title in ftbench.report.page.svg."""
    artist.set_gid(json.dumps("\n".join(one_line(line) for line in text.split("\n"))[:HOVER_LETTERS]))
