"""What a chart of the page is made of."""

from __future__ import annotations

from dataclasses import dataclass

import plotly.graph_objects as go

from ftbench.report import words
from ftbench.report.tables import Table


@dataclass(frozen=True)
class Chart:
    """One chart of the page with its table."""

    name: str
    """Its id, and the name of its downloads."""
    title: str
    caption: str
    """How it is read."""
    alt: str
    """What it shows, for who cannot see it."""
    figure: go.Figure
    table: Table
    folded: str = ""
    """What it is about, if it is only shown on request."""


def name(*parts: str) -> str:
    """A chart's name from those of its scenario and of what it shows."""
    return words.slug("-".join(part for part in parts if part))
