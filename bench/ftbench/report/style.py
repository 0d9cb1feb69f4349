"""The look of charts: colours, hatching, dashes, marks, texts, axes and legends.

The colours of configurations are Okabe and Ito's, which people with any kind of colour vision can
tell apart. Variants differ in hatching, dashes and marks, not in colour.
"""

import itertools
import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ftrun.escape import one_line

# Colours (light, dark) of the page, and of everything in charts that belongs to no configuration.
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
# Charts are drawn in the light colours.
TEXT, BACK, SOFT, GRID, ALARM, SHOWN = (
    PALETTE[name][0] for name in ("text", "back", "soft", "grid", "alarm", "shown")
)
COLOURS = {"gil": "#e69f00", "ft-gil": "#56b4e9", "ft": "#009e73"}
# Okabe and Ito's vermilion, for steps that slow: in no configuration's colour.
SLOWER = "#d55e00"
# Pixels: the width of a chart, the heights of a line of text and of a bar,
# the gap between groups or charts.
WIDTH, LINE, BAR, GAP = 384, 18, 18, 14
# Pixels below any plot, for the labels of its axis.
BELOW = 46
# Pixels of a character, on average.
LETTER = 7.4
# Characters of a line of text, of a name in a legend,
# of a mark on an axis, and of a text for hovering.
LINE_LETTERS, NAME_LETTERS, MARK_LETTERS, HOVER_LETTERS = 50, 44, 10, 1000
# Places of marks on an axis of ratios.
RATIOS = [
    digit * power
    for power, digit in itertools.product((0.01, 0.1, 1, 10), (1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8, 9))
]
# Units of time, in seconds.
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
Marks = tuple[list[float], list[str]]
"""Marks of an axis, and their labels."""
Legend = Sequence[tuple[str, Artist]]
"""Entries of a legend: (name, artist that is drawn next to the name)."""


@dataclass(frozen=True)
class Look:
    """Look of a variant: the hatching of bars, the dashes and marks of curves."""

    hatch: str
    dash: str | tuple
    mark: str


# The look of each variant. Variants that never meet in a chart share a look,
# since there are only eight hatchings.
LOOKS: dict[str, Look] = {}
for _variants, _look in {
    ("loader-thread", "bare-thread", "bare-command"): Look("", "-", "o"),
    ("loader-process", "bare-process"): Look("///", (0, (4, 2)), "s"),
    ("loader-decode", "loader-stack", "loader-copies"): Look("++", (0, (7, 2)), "*"),
    ("torch-process", "loader-spawn"): Look("xx", (0, (1, 1.5)), "X"),
    ("nodes-thread", "loader-forkserver"): Look("/-", "-.", "D"),
    ("spdl",): Look("\\\\\\", (0, (7, 2, 2, 2)), "^"),
    ("spdl-samples", "spdl-io"): Look("---", (0, (3, 1)), "P"),
    ("loop", "serial"): Look("|||", (0, (2, 3)), "v"),
}.items():
    LOOKS |= dict.fromkeys(_variants, _look)


def cut(text: str, most: int = LINE_LETTERS) -> str:
    """Return *text* on one line, shortened to at most *most* characters."""
    line = one_line(text)
    if len(line) <= most:
        return line
    return line[: most - 1] + "…"


def wrapped(text: str, width: int = LINE_LETTERS, most: int = 3) -> list[str]:
    """Wrap *text* to at most *most* lines; return [] if it is empty."""
    return textwrap.wrap(one_line(text), width, max_lines=most, placeholder=" …")


def place(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Add axes to the figure and return the axes. The place is
    in pixels from the figure's top left corner.
    """
    across, down = figure.get_size_inches() * 72
    bottom = 1 - (top + height) / down
    axes = figure.add_axes((left / across, bottom, width / across, height / down))
    axes.set_facecolor("none")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(color=SOFT, labelcolor=TEXT)
    axes.xaxis.label.set_color(TEXT)
    return axes


def far_apart(values: Iterable[float]) -> bool:
    """True if the values need a logarithmic axis: positive,
    the largest at least 10 times the smallest.
    """
    values = list(values)
    smallest = min(values)
    return smallest > 0 and max(values) / smallest >= 10


def amount(value: float, unit: str) -> str:
    """Return the label of a value on an axis. Durations and whole GiB have their unit,
    other values have none.
    """
    if unit in SECONDS:
        return _duration(value * SECONDS[unit])
    if unit == "MiB" and value >= 1024 and value % 1024 == 0:
        return f"{value / 1024:g} GiB"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has one or more."""
    if not seconds:
        return "0 s"
    units = (unit for unit, length in SECONDS.items() if seconds >= length * (1 - 1e-9))
    unit = next(units, "ns")
    return f"{seconds / SECONDS[unit]:,.3g} {unit}"


def round_marks(low: float, high: float, most: int = 5, **options: Any) -> Marks:
    """Return (marks, labels) for an axis, with marks at round figures only.
    *options*: see MaxNLocator.
    """
    ticks = MaxNLocator(most, **options).tick_values(low, high)
    marks = [float(tick) for tick in ticks if low <= tick <= high]
    return marks, [f"{mark:,.5g}" for mark in marks]


def log_marks(low: float, high: float, unit: str = "", most: int = 6) -> Marks:
    """Return (marks, labels) for a logarithmic axis: `most` or fewer, at 1, 2 and 5 times powers of
    ten if they fit.
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        marks = []
        for power, digit in itertools.product(powers, digits):
            mark = digit * 10.0**power
            if low / 1.001 <= mark <= high * 1.001:
                marks.append(mark)
        if len(marks) <= most:
            break
    step = math.ceil(len(marks) / most) or 1
    marks = marks[::step]
    return marks, [amount(mark, unit) for mark in marks]


def ratio_marks(low: float, high: float) -> list[float]:
    """Return marks for a logarithmic axis of ratios: 1 and, if possible, two or more others, none
    near an end.
    """
    edge = (high / low) ** 0.05
    low, high = low * edge, high / edge
    if high / low <= 1.5:
        return round_marks(low, high, steps=[1, 2, 5, 10], min_n_ticks=3)[0]
    if high / low > 30:
        return sorted({1.0, *log_marks(low, high)[0]})
    # From 1 outwards, each with room for its text.
    gap = (high / low) ** (1 / 8)
    marks = [1.0]
    for ratio in sorted(RATIOS, key=lambda ratio: abs(math.log(ratio))):
        distances = [max(ratio / mark, mark / ratio) for mark in marks]
        if low <= ratio <= high and min(distances) >= gap:
            marks.append(ratio)
    return sorted(marks)


def legend_height(entries: Legend) -> float:
    """Return the height of a legend in pixels."""
    if not entries:
        return 0
    lines = sum(len(_wrapped_name(name)) for name, _ in entries)
    return 6 + lines * (LINE + 3)


def _wrapped_name(name: str) -> list[str]:
    """Wrap a name in a legend."""
    return wrapped(name, NAME_LETTERS, 2)


def draw_legend(axes: Axes, entries: Legend, left: float) -> None:
    """Draw a legend below the axes and their labels,
    `left` pixels to the right of the axes' left end.
    """
    if not entries:
        return
    box = axes.get_position()
    across, down = axes.figure.get_size_inches() * 72
    axes.legend(
        [handle for _, handle in entries],
        ["\n".join(_wrapped_name(name)) for name, _ in entries],
        loc="upper left",
        bbox_to_anchor=(left / (box.width * across), -BELOW / (box.height * down)),
        frameon=False,
        borderaxespad=0,
        borderpad=0,
        handlelength=2.2,
        labelspacing=0.35,
        labelcolor=TEXT,
    )


def hover(artist: Artist, text: str) -> None:
    """Store a tooltip in the artist's id. ftbench.report.pictures.svg moves it into a title,
    which browsers show.
    """
    lines = map(one_line, text.split("\n"))
    tooltip = "\n".join(lines)[:HOVER_LETTERS]
    artist.set_gid(json.dumps(tooltip))
