"""Distributions as a plotly figure (see ftbench.report.figures)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from ftbench.report.canvas import BAR, LONGEST_NAME, SMALL, TEXT, Rows, lines, logarithmic, safe
from ftbench.report.canvas import figure as empty_figure
from ftbench.report.styles import COLOURS

# From so many times the smallest value on, the largest leaves no room for the small ones on a linear axis.
FAR = 10


@dataclass(frozen=True)
class Spread:
    """A distribution: its values in order of size."""

    config: str
    label: str
    values: Sequence[float]
    hover: str
    workers: int

    def at(self, share: float) -> float:
        """Its quantile."""
        return quantile(self.values, share)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values do not exceed.

    Always one of the values: definition 1 of Hyndman and Fan, "Sample quantiles in statistical packages",
    The American Statistician 50, 1996.
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _axis(figure: go.Figure, values: Sequence[float], unit: str, room: float) -> None:
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
