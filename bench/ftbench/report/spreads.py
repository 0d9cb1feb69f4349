"""Charts of distributions, and of values between bounds, as plotly figures (see ftbench.report.figures)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ftbench.report.canvas import BAR, FAINT, LONGEST_NAME, OUTLINE, SMALL, TEXT, Rows, lines, logarithmic, safe
from ftbench.report.canvas import figure as empty_figure
from ftbench.report.styles import COLOURS, style
from ftbench.report.words import SHORT_TITLES

CURVE_HEIGHT = 340
# From so many times the smallest value on, the largest leaves no room for the small ones on a linear axis.
FAR = 10


@dataclass(frozen=True)
class Spread:
    """A distribution: its quantiles, `(share, value)` in order of both."""

    config: str
    variant: str
    label: str
    quantiles: Sequence[tuple[float, float]]
    hover: str
    workers: int = 0

    def at(self, share: float) -> float:
        """The quantile nearest to a share."""
        return min(self.quantiles, key=lambda q: abs(q[0] - share))[1]


@dataclass(frozen=True)
class Between:
    """A value and the bounds that it should lie between."""

    config: str
    variant: str
    label: str
    least: float
    most: float
    value: float
    low: float
    high: float
    hover: str


def shares(spreads: Sequence[Spread], unit: str) -> go.Figure:
    """Cumulative distributions: which share of the values was at most so large."""
    figure = empty_figure(CURVE_HEIGHT + 64, (spread.label for spread in spreads))
    for spread in spreads:
        look = style(spread.variant)
        figure.add_scatter(
            x=[value for _, value in spread.quantiles],
            y=[share for share, _ in spread.quantiles],
            mode="lines",
            name=safe(spread.label, LONGEST_NAME),
            line={"color": COLOURS[spread.config], "width": 2.5, "dash": look.dash, "shape": "hv"},
            hovertemplate=f"{safe(spread.label)}<br>%{{y:.1%}} are at most %{{x:.4g}} {safe(unit)}<extra></extra>",
        )
    _axis(figure, [value for spread in spreads for _, value in spread.quantiles], unit)
    figure.update_yaxes(range=[0, 1.01], tickformat=".0%", dtick=0.25)
    figure.update_layout(margin={"l": 52})
    return figure


def _axis(figure: go.Figure, values: Sequence[float], unit: str, room: float = 1.0) -> None:
    """The horizontal axis for values of a unit, logarithmic if they are far apart; `room` more on the right."""
    low, high = min(values), max(values)
    if low > 0 and high / low >= FAR:
        logarithmic(figure, low, high * (high / low) ** (room - 1), unit)
        unit += ", logarithmic"
    else:
        figure.update_xaxes(range=[min(0.0, low), high * room * 1.03], nticks=6)
    figure.update_xaxes(title={"text": safe(unit, LONGEST_NAME)})


def boxes(groups: Sequence[tuple[str, Sequence[Spread]]], unit: str) -> go.Figure:
    """Boxes from the lower to the upper quartile, with lines from the 1st to the 99th percentile, which is written."""
    rows, places = Rows(), []
    for title, group in groups:
        rows.group(title)
        places += [(rows.row(spread.label), spread) for spread in group]
    figure = empty_figure(rows.height + 64, legend=False)
    for y, spread in places:
        figure.add_box(
            orientation="h",
            y0=y,
            y=[y],
            q1=[spread.at(0.25)],
            median=[spread.at(0.5)],
            q3=[spread.at(0.75)],
            lowerfence=[spread.at(0.01)],
            upperfence=[spread.at(0.99)],
            width=BAR - 4,
            name=safe(spread.label, LONGEST_NAME),
            fillcolor=COLOURS[spread.config],
            line={"color": TEXT, "width": 1.5},
            showlegend=False,
            hoverinfo="skip",
            boxpoints=False,
        )
    figure.add_scatter(
        x=[spread.at(0.5) for _, spread in places],
        y=[y for y, _ in places],
        mode="markers",
        showlegend=False,
        marker={"symbol": "line-ns", "size": 12, "line": {"color": TEXT, "width": 1.5}},
        customdata=[lines(spread.hover) for _, spread in places],
        hovertemplate="%{customdata}<extra></extra>",
    )
    figure.add_scatter(
        x=[spread.at(0.99) for _, spread in places],
        y=[y for y, _ in places],
        mode="text",
        showlegend=False,
        text=[f"  {spread.at(0.5):.3g} · {spread.at(0.99):.3g}" for _, spread in places],
        textposition="middle right",
        textfont={"size": SMALL},
        hoverinfo="skip",
        cliponaxis=False,
    )
    _axis(figure, [spread.at(share) for _, spread in places for share in (0.01, 0.99)], unit, room=1.35)
    rows.write(figure)
    return figure


def between(groups: Sequence[tuple[str, Sequence[Between]]], unit: str) -> go.Figure:
    """Bars from bound to bound, each with the mark of a value and its range."""
    rows, places = Rows(), []
    for title, group in groups:
        rows.group(title)
        places += [(rows.row(row.label), row) for row in group]
    configs = [config for config in COLOURS if any(row.config == config for _, row in places)]
    names = {config: f"measured: {SHORT_TITLES[config]}" for config in configs}
    figure = empty_figure(rows.height + 64, ["between the bounds", *names.values()])
    figure.add_bar(
        orientation="h",
        y=[y for y, _ in places],
        base=[row.least for _, row in places],
        x=[row.most - row.least for _, row in places],
        width=BAR - 6,
        name="between the bounds",
        marker={"color": FAINT, "line": {"color": OUTLINE, "width": 1}},
        hoverinfo="skip",
    )
    for config, name in names.items():
        own = [(y, row) for y, row in places if row.config == config]
        figure.add_scatter(
            x=[row.value for _, row in own],
            y=[y for y, _ in own],
            mode="markers",
            name=name,
            marker={"color": COLOURS[config], "size": 12, "line": {"color": TEXT, "width": 1.5}},
            error_x={
                "type": "data",
                "array": [row.high - row.value for _, row in own],
                "color": TEXT,
                "width": 4,
                "arrayminus": [row.value - row.low for _, row in own],
                "thickness": 1.5,
            },
            customdata=[lines(row.hover) for _, row in own],
            hovertemplate="%{customdata}<extra></extra>",
        )
    most = max(max(row.most, row.high) for _, row in places)
    figure.update_xaxes(range=[0, most * 1.05], nticks=6, title={"text": safe(unit, LONGEST_NAME)})
    rows.write(figure)
    return figure
