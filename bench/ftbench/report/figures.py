"""The page's charts as plotly figures. They know how to draw; what is drawn is ftbench.report.charts' choice.

Colours of text, lines and background are the page's own (`var(--text)`), which templates/report.js puts
in for light and dark. A figure's height fits its rows; `meta` tells the script what belongs to it, so that
it can make room for a legend that takes more lines on a phone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ftbench.report.canvas import (
    BACK,
    BAR,
    LONGEST_MARK,
    LONGEST_NAME,
    OUTLINE,
    SHOWN,
    SMALL,
    SOFT,
    TEXT,
    Rows,
    lines,
    log_ticks,
    logarithmic,
    safe,
)
from ftbench.report.canvas import figure as empty_figure
from ftbench.report.series import ratio_marks
from ftbench.report.styles import ALIKE, COLOURS, TARGET, style

CURVE_HEIGHT = 340
# How far the axis of ratios reaches beyond the smallest and the largest, as a factor.
WIDEST = 10
# Beside a bar so many times as long, a bar of the median length is too short to be read.
TOO_FAR = 50
# Curves of more points are drawn without marks, and their ranges as bands.
MOST_MARKS = 12


@dataclass(frozen=True)
class Bar:
    """One bar: its series, the value with its spread, and what is written at its end and on hovering."""

    config: str
    variant: str
    label: str
    value: float
    low: float
    high: float
    text: str
    hover: str


@dataclass(frozen=True)
class Line:
    """One curve with its intervals."""

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
class Row:
    """A ratio in a picture of ratios."""

    label: str
    ratio: float
    low: float | None
    high: float | None
    clear: bool
    text: str
    hover: str
    target: float | None = None


@dataclass(frozen=True)
class Axis:
    """What a horizontal axis of cases or workers says."""

    title: str
    values: Sequence[float]
    texts: Sequence[str]
    logarithmic: bool
    ends: tuple[float, float] | None = None
    """Where it begins and ends, if not at its first and last mark."""


def _fading(pattern: str) -> dict:
    return {"shape": pattern, "fillmode": "replace", "size": 7, "solidity": 0.35}


def bars(
    groups: Sequence[tuple[str, Sequence[Bar]]], unit: str, own_names: bool = False, ideal: float | None = None
) -> go.Figure:
    """Lying bars in groups, each group with its name above; lines from the lowest to the highest value.

    With `own_names` each bar has its name above instead of a legend. Values that are too far apart for bars
    are marks on a logarithmic axis. At `ideal` is a dotted line.
    """
    every = sorted((bar for _, group in groups for bar in group), key=lambda bar: list(COLOURS).index(bar.config))
    names = {(bar.config, bar.variant): bar.label for bar in every}
    rows, places = Rows(), []
    for title, group in groups:
        rows.group(title)
        places += [(rows.row(bar.label if own_names else ""), bar) for bar in group]
    values = sorted(bar.value for _, bar in places)
    least, most = min(bar.low for _, bar in places), max(bar.high for _, bar in places)
    far = least > 0 and values[-1] > TOO_FAR * values[len(values) // 2]
    figure = empty_figure(rows.height + 64, names.values(), legend=not own_names)
    for series, name in names.items():
        own = [(y, bar) for y, bar in places if (bar.config, bar.variant) == series]
        shared = {
            "y": [y for y, _ in own],
            "x": [bar.value for _, bar in own],
            "name": safe(name, LONGEST_NAME),
            "customdata": [lines(bar.hover) for _, bar in own],
            "hovertemplate": "%{customdata}<extra></extra>",
            "error_x": {
                "type": "data",
                "array": [bar.high - bar.value for _, bar in own],
                "color": TEXT,
                "arrayminus": [bar.value - bar.low for _, bar in own],
                "thickness": 1.5,
                "width": 4,
            },
        }
        if far:
            figure.add_scatter(
                mode="markers",
                marker={
                    "color": COLOURS[series[0]],
                    "symbol": style(series[1]).symbol,
                    "size": 11,
                    "line": {"color": OUTLINE, "width": 1},
                },
                **shared,
            )
        else:
            figure.add_bar(
                orientation="h",
                width=BAR - 3,
                marker={
                    "color": COLOURS[series[0]],
                    "pattern": _fading(style(series[1]).pattern),
                    "line": {"color": OUTLINE, "width": 0.5},
                },
                **shared,
            )
    figure.add_scatter(
        x=[bar.high for _, bar in places],
        y=[y for y, _ in places],
        mode="text",
        text=[f"  {safe(bar.text)}" for _, bar in places],
        textposition="middle right",
        textfont={"size": SMALL},
        hoverinfo="skip",
        showlegend=False,
        cliponaxis=False,
    )
    if ideal is not None:
        figure.add_vline(x=ideal, line={"color": TEXT, "width": 1.5, "dash": "dot"})
    # Room on the right for the figures.
    if far:
        logarithmic(figure, least, most * (most / least) ** 0.3, unit)
    else:
        figure.update_xaxes(range=[0, max(most * 1.3, (ideal or 0) * 1.05)], nticks=6)
    figure.update_xaxes(title={"text": safe(unit + (", logarithmic" if far else ""), LONGEST_NAME)})
    rows.write(figure)
    return figure


def curves(
    drawn: Sequence[Line],
    axis: Axis,
    unit: str,
    logarithmic: bool = False,
    most: float | None = None,
    ideal: Sequence[tuple[float, float]] = (),
) -> go.Figure:
    """Curves over cases, workers or the course of a trial, with their intervals.

    The axis reaches up to `most`, if that is more than the curves' own end. `ideal` are the (x, y) of a dotted line.
    """
    names = [line.label for line in drawn] + (["ideal"] if ideal else [])
    figure = empty_figure(CURVE_HEIGHT + 64, names)
    if ideal:
        figure.add_scatter(
            x=[x for x, _ in ideal],
            y=[y for _, y in ideal],
            mode="lines",
            name="ideal",
            line={"color": TEXT, "width": 1.5, "dash": "dot"},
            hoverinfo="skip",
        )
    for line in drawn:
        look, colour = style(line.variant), COLOURS.get(line.config, ALIKE)
        shared = {
            "x": list(line.x),
            "y": list(line.y),
            "name": safe(line.label, LONGEST_NAME),
            "line": {"color": colour, "width": 2.5, "dash": look.dash},
            "customdata": [lines(text) for text in line.hover],
            "hovertemplate": "%{customdata}<extra></extra>",
        }
        if len(line.x) > MOST_MARKS:
            if line.low != line.high:
                figure.add_scatter(
                    x=[*line.x, *reversed(line.x)],
                    y=[*line.high, *reversed(line.low)],
                    mode="none",
                    fill="toself",
                    fillcolor=_translucent(colour),
                    hoverinfo="skip",
                    showlegend=False,
                )
            figure.add_scatter(mode="lines", **shared)
            continue
        figure.add_scatter(
            mode="lines+markers",
            marker={
                "color": colour if not line.mark % 2 else BACK,
                "size": 9,
                "symbol": look.symbol,
                "line": {"color": colour, "width": 2},
            },
            error_y={
                "type": "data",
                "array": [h - y for h, y in zip(line.high, line.y, strict=True)],
                "arrayminus": [y - low for low, y in zip(line.low, line.y, strict=True)],
                "color": colour,
                "thickness": 1.5,
                "width": 4,
            },
            **shared,
        )
    figure.update_xaxes(
        title={"text": safe(axis.title, LONGEST_NAME)},
        type="log" if axis.logarithmic else "linear",
        tickvals=list(axis.values),
        ticktext=[safe(text, LONGEST_MARK) for text in axis.texts],
        **_room(axis),
    )
    ends = [v for line in drawn for v in (*line.low, *line.high)] + [y for _, y in ideal] + ([most] if most else [])
    if logarithmic:
        figure.update_yaxes(type="log", **log_ticks(min(ends), max(ends), unit))
    else:
        figure.update_yaxes(rangemode="tozero", range=[min(0.0, *ends), max(ends) * 1.08])
    figure.update_yaxes(automargin="left", nticks=6)
    # Above the chart, lying: beside it, it would take a phone's width.
    figure.update_layout(margin={"t": 30, "l": 52})
    figure.add_annotation(
        x=0,
        xref="paper",
        xanchor="left",
        xshift=-44,
        y=1,
        yref="paper",
        yanchor="bottom",
        yshift=8,
        text=safe(unit, LONGEST_NAME),
        showarrow=False,
        font={"size": SMALL},
    )
    return figure


def _translucent(colour: str) -> str:
    """A colour "#rrggbb" for a band behind its line."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"


def scale(values: Sequence[float], title: str) -> Axis:
    """An axis for values without places of their own, marked at round figures."""
    low, high = min(values), max(values)
    span = high - low or abs(high) or 1
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(m * power for m in (1, 2, 5, 10) if span / (m * power) <= 5)
    if all(float(v).is_integer() for v in values):
        step = max(step, 1)
    marks = [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
    # The ends are part of the range, marked or not.
    ends = [low, *(m for m in marks if low < m < high), high] if len(marks) < 2 else marks
    return Axis(title, ends, [f"{m:,g}" for m in ends], False, (low, high))


def _room(axis: Axis) -> dict:
    """The range of an axis with some room at both ends."""
    low, high = axis.ends or (min(axis.values), max(axis.values))
    if axis.logarithmic:
        low, high = math.log10(low), math.log10(high)
    room = (high - low or 1) * 0.06
    return {"range": [low - room, high + room]}


def _reach(middle: Sequence[float], ends: Sequence[float]) -> tuple[float, float]:
    """The range of a logarithmic axis of ratios.

    Two rounds can give intervals over many powers of ten; these leave the picture, the ratios stay.
    """
    return (max(min(ends), min(middle) / WIDEST) * 0.8, min(max(ends), max(middle) * WIDEST) * 1.25)


def _ratio_ticks(least: float, most: float) -> dict:
    marks = ratio_marks(least, most)
    return {"tickvals": marks, "ticktext": [f"{m:g}x" for m in marks]}


def ratios(groups: Sequence[tuple[str, Sequence[Row]]], about: str) -> go.Figure:
    """Ratios in groups, one below the other, with their intervals."""
    rows, places = Rows(), []
    for title, group in groups:
        rows.group(title)
        places += [(rows.row(row.label), row) for row in group]
    targets = any(row.target for _, row in places)
    names = ["a difference is shown", "none is shown"] + (["target"] if targets else [])
    figure = empty_figure(rows.height + 64, names)
    middle = [row.ratio for _, row in places] + [1.0]
    ends = middle + [end for _, row in places for end in (row.low, row.high) if end is not None]
    ends += [row.target for _, row in places if row.target]
    least, most = _reach(middle, ends)
    figure.add_vline(x=1, line={"color": TEXT, "width": 1})
    for clear, colour, name in ((True, SHOWN, names[0]), (False, SOFT, names[1])):
        own = [(y, row) for y, row in places if row.clear is clear]
        figure.add_scatter(
            x=[row.ratio for _, row in own] or (None,),
            y=[y for y, _ in own] or (None,),
            mode="markers",
            name=name,
            marker={"color": colour if clear else BACK, "size": 11, "line": {"color": colour, "width": 2}},
            error_x={
                "type": "data",
                "array": [(row.high or row.ratio) - row.ratio for _, row in own],
                "arrayminus": [row.ratio - (row.low or row.ratio) for _, row in own],
                "color": colour,
                "thickness": 2,
                "width": 5,
            },
            customdata=[lines(row.hover) for _, row in own],
            hovertemplate="%{customdata}<extra></extra>",
        )
    if targets:
        own = [(y, row) for y, row in places if row.target]
        figure.add_scatter(
            x=[row.target for _, row in own],
            y=[y for y, _ in own],
            mode="markers",
            name=names[2],
            marker={"symbol": "line-ns", "size": 16, "line": {"color": TARGET, "width": 3}},
            hovertemplate="target %{x}<extra></extra>",
        )
    for y, row in places:
        figure.add_annotation(
            x=1,
            xref="paper",
            xanchor="right",
            y=y,
            yanchor="middle",
            text=safe(row.text),
            showarrow=False,
            font={"size": SMALL},
            bgcolor=BACK,
            opacity=0.9,
        )
    figure.update_xaxes(
        type="log",
        range=[math.log10(least), math.log10(most * (most / least) ** 0.25)],
        title={"text": safe(about, LONGEST_NAME)},
        **_ratio_ticks(least, most),
    )
    rows.write(figure)
    return figure
