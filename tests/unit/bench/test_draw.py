"""Pictures of values that are awkward to draw: none, alone, equal, far apart, or long in words."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from ftbench.plan.candidates import VARIANTS
from ftbench.report import pictures, style
from ftbench.report.draw import Chart, Curves, Line, Row, Rows
from ftbench.report.style import LINE, WIDTH
from ftbench.report.tables import Table
from ftrun.escape import one_line
from tests.hostile_text import HOSTILE_TEXTS

pytestmark = pytest.mark.filterwarnings("error")
TEXT = "{http://www.w3.org/2000/svg}text"


def row(value: float, low: float | None = None, high: float | None = None, **more) -> Row:
    return Row(
        "", value, low, high, f"hover {value}", "ft", "loader-thread", text=f"{value:g}", **more
    )


def line(*values: float, label: str = "a") -> Line:
    return Line(
        "ft",
        "loader-thread",
        label,
        range(1, len(values) + 1),
        values,
        values,
        values,
        list(map(str, values)),
    )


def bars(*values: float) -> Rows:
    return Rows([("", [row(value, value, value) for value in values])], "s")


def ratios(*rows: Row) -> Rows:
    return Rows([("", rows)], "ratio", ratios=True)


PICTURES = {
    "one bar": bars(3.0),
    "bars of nothing": bars(0.0, 0.0),
    "bars far apart": bars(1e-6, 1e9),
    "bars as long as can be": bars(1.0, 1.7e308),
    "a bar below nothing": bars(-2.0, 1.0),
    "a bar that reaches back": Rows([("", [row(0.0, begin=5.0, dots=(0.0, 7.0))])], "s"),
    "a ratio of one round": ratios(row(1.3)),
    "a ratio of 1": ratios(row(1.0, 1.0, 1.0)),
    "ratios of two rounds": ratios(row(2.0, 1e-9, 1e9), row(0.5, 0.4, 0.6)),
    "ratios close to 1": ratios(row(1.001, 0.999, 1.003)),
    "a curve of one value": Curves([line(5.0)], "step", "nats"),
    "a curve of nothing": Curves([line(0.0, 0.0)], "step", "nats"),
    "a curve below nothing": Curves([line(-2.0, 1.0)], "step", "nats"),
    "a curve of less than nothing": Curves([line(-1.0, -1.0)], "step", "nats"),
    "curves far apart": Curves(
        [line(1e-3, 1.0), line(5.0, 2e4, label="b")], "step", "s", logarithmic=True
    ),
    "a long curve": Curves([line(*map(float, range(1000)))], "step", "nats"),
    "many places": Curves([line(1.0)], "n", "s", {n: str(n) for n in range(1, 100)}),
}


def chart_of(picture: object, title: str = "A title") -> Chart:
    return Chart("it", title, "", picture, Table(("what",), (("it",),), frozenset()))


def drawn(picture: object) -> ElementTree.Element:
    return ElementTree.fromstring(pictures.svg(chart_of(picture)))


@pytest.mark.parametrize("name", PICTURES)
def test_awkward_values_are_drawn(name):
    root = drawn(PICTURES[name])
    shown = ElementTree.tostring(root, encoding="unicode")
    assert not re.search(r"\b(nan|inf)\b", shown)
    # At least one mark of its axis, and something to hover over.
    assert [element for element in root.iter(TEXT) if re.match(r"[\d.,]+", element.text)]
    assert 0 < len(re.findall("<(?:\\w+:)?title>", shown)) <= 13


def axes_of(picture: object) -> Axes:
    figure = Figure(figsize=(6, 6), dpi=72)
    picture.draw(figure, 0, 0)
    return figure.axes[0]


def lines_in(axes: Axes) -> list[list[float]]:
    """Where each line, dot or mark is: its places on the axis of the values."""
    return [list(map(float, each.get_xdata())) for each in axes.lines]


def bars_in(axes: Axes) -> list[Polygon]:
    return [patch for patch in axes.patches if isinstance(patch, Polygon)]


def test_steps_are_arrows_that_show_what_slows():
    steps = (
        row(9.0, begin=1.0, is_step=True),
        row(1.0, begin=9.0, is_step=True),
        row(3.0, begin=9.0, is_step=True, shown=False),
    )
    faster, slower, unclear = bars_in(axes_of(Rows([("", steps)], "s")))
    # The tip is the only corner at the new value.
    for bar, step in zip((faster, slower, unclear), steps, strict=True):
        places = [float(x) for x, _ in bar.get_xy()[:-1]]
        assert places.count(step.value) == 1 and places.count(step.begin) == 2
    assert faster.get_facecolor() == to_rgba(style.COLOURS["ft"])
    assert slower.get_facecolor() == to_rgba(style.SLOWER)
    assert unclear.get_facecolor() == to_rgba(style.BACK)
    assert unclear.get_edgecolor() == to_rgba(style.COLOURS["ft"])


def test_values_are_where_they_belong():
    axes = axes_of(Rows([("", [row(3.0, 2.0, 5.0, begin=1.0, dots=(2.5, 4.0))])], "s"))
    (bar,) = bars_in(axes)
    assert {float(x) for x, _ in bar.get_xy()} == {1.0, 3.0}
    assert lines_in(axes) == [[2.5, 4.0], [2.0, 5.0]]

    axes = axes_of(ratios(row(1.3, 1.1, 1.6)))
    assert lines_in(axes) == [[1.1, 1.6], [1.3]]

    axes = axes_of(Curves([line(5.0, 7.0)], "step", "nats", ideal=[(1, 1.0), (2, 2.0)]))
    assert [list(map(float, each.get_ydata())) for each in axes.lines] == [
        [1.0, 2.0],
        [5.0, 7.0],
        [5.0],
        [7.0],
    ]


@pytest.mark.parametrize(
    "low, high", [(0.97, 1.04), (0.6, 1.7), (0.45, 4.8), (0.1, 2.0), (0.98, 9.0), (0.01, 300.0)]
)
def test_ratios_can_be_read(low, high):
    marks = style.ratio_marks(low, high)
    assert (
        len(marks) >= 3
        and 1.0 in marks
        and all(low <= mark <= high for mark in marks)
        and marks == sorted(marks)
    )
    # Texts of marks have room.
    places = [math.log(mark / low) / math.log(high / low) * WIDTH for mark in marks]
    assert all(b - a > 30 for a, b in zip(places, places[1:], strict=False)), marks


def test_no_line_crosses_a_text():
    """Labels stand above their marks; grid and the line at 1 are drawn beside the marks alone."""
    picture = ratios(
        replace(row(1.3, 0.9, 1.6), label="a / b", detail="between 10% slower and 60% faster")
    )
    axes = axes_of(picture)
    height = axes.get_ylim()[0]
    above = [
        text.get_position()[1] + LINE
        for text in axes.texts
        if text.get_text() in ("a / b", picture.rows[0].detail)
    ]
    assert len(above) == 2
    ends = [
        y for lines in axes.collections for segment in lines.get_segments() for y in segment[:, 1]
    ]
    assert ends and max(above) <= min(ends) and max(ends) <= height + 1
    assert not axes.xaxis.get_gridlines()[0].get_visible()


def test_bars_far_apart_are_marks_on_a_logarithmic_axis():
    """The bar of a value that another exceeds 50 times would be too short to be seen."""
    axes = axes_of(bars(2.0, 100.0))
    assert axes.get_xscale() == "log" and not [patch for patch in axes.patches if patch.get_fill()]
    (low, high), first, last = axes.get_xlim(), *lines_in(axes)
    # with room for the figure
    assert (first, last) == ([2.0], [100.0]) and low < 2.0 and high > 110.0
    for ideal in (0.5, 4000.0):
        low, high = axes_of(replace(bars(2.0, 100.0), ideal=ideal)).get_xlim()
        assert low < ideal < high
    assert axes_of(bars(20.0, 100.0)).get_xscale() == "linear"
    assert (
        axes_of(Rows([("", [row(2.0, dots=(1.0, 3.0)), row(100.0)])], "s")).get_xscale() == "linear"
    )


def test_the_last_point_of_a_long_curve_shows_its_value():
    root = drawn(Curves([line(*map(float, range(1000)))], "step", "nats"))
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == "0.0" and titles[-1] == "999.0" and len(titles) <= 13


def test_own_settings_of_matplotlib_change_nothing(monkeypatch):
    expected = ElementTree.tostring(drawn(bars(3.0, 5.0)))
    for name, value in (
        ("savefig.bbox", "tight"),
        ("savefig.transparent", True),
        ("axes.facecolor", "red"),
    ):
        monkeypatch.setitem(matplotlib.rcParams, name, value)
    assert ElementTree.tostring(drawn(bars(3.0, 5.0))) == expected


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_arrives_as_it_is(text):
    picture = Rows(
        [(text, [Row(text, 1.0, None, None, text, "ft", "loader-thread", text=text)])], text
    )
    expected = one_line(text)
    told = [e.text for e in drawn(picture).iter() if e.tag.endswith(("}text", "}title")) and e.text]
    assert expected in told  # for hovering; others are cut
    above = [
        each.get_text()
        for each in pictures._figure([chart_of(picture, text)], [text], alarm=False).texts
    ]
    for each in (told, above):
        assert any(line.startswith(expected[:10].strip()) for line in each)


@pytest.mark.parametrize("count", [1, 3])
def test_long_names_are_cut(count):
    name = "a name of so many words that no line has room for it " * 40
    rows = [
        Row(name, 1.0, None, None, name, "ft", "spdl-samples", detail=name, text=name)
        for _ in range(count)
    ]
    for picture in (
        Rows([(name, rows)], name),
        Curves([line(1.0, label=name)] * count, name, name),
    ):
        root, whole = (
            drawn(picture),
            pictures._figure([chart_of(picture, name)], [name], alarm=False),
        )
        shown = [element.text for element in root.iter(TEXT)] + [
            each.get_text() for each in whole.texts
        ]
        assert max(map(len, shown)) <= style.LINE_LETTERS
        assert float(root.get("height")) < 72 * whole.get_figheight() < 1500


def test_every_variant_has_a_look():
    assert style.LOOKS.keys() == VARIANTS.keys()
    looks = set(style.LOOKS.values())
    for part in ("hatch", "dash", "mark"):
        assert len({getattr(each, part) for each in looks}) == len(looks)
