"""Colours and marks that pictures and charts have in common.

The colours are Okabe and Ito's, which people with any kind of colour vision tell apart. They say which
configuration it is; hatching, dashes and the shape of a mark say which kind of workers, without colour.
"""

from __future__ import annotations

from dataclasses import dataclass

from ftbench.plan.variants import VARIANTS

COLOURS = {"gil": "#E69F00", "ft-gil": "#56B4E9", "ft": "#009E73"}
# What belongs to no one configuration; from the same palette.
SHOWN = ALIKE = "#0072B2"
UNCERTAIN, TARGET = "#777777", "#D55E00"


@dataclass(frozen=True)
class Style:
    """How a variant looks: the pattern of bars, the dashes and marks of curves."""

    pattern: str
    dash: str
    symbol: str


STYLES = (
    Style("", "solid", "circle"),
    Style("/", "dash", "square"),
    Style("+", "longdash", "star"),
    Style("x", "dot", "x"),
    Style(".", "dashdot", "diamond"),
    Style("\\", "longdashdot", "triangle-up"),
    Style("-", "5px,2px", "cross"),
    Style("|", "2px,4px", "triangle-down"),
)


# By place in STYLES. Variants that never meet in a chart may share a look: there are but eight patterns.
LOOKS = {
    "loader-thread": 0,
    "bare-thread": 0,
    "loader-process": 1,
    "bare-process": 1,
    "loader-decode": 2,
    "loader-stack": 2,
    "torch-process": 3,
    "loader-spawn": 3,
    "nodes-thread": 4,
    "loader-forkserver": 4,
    "serial": 4,
    "spdl": 5,
    "spdl-samples": 6,
    "loop": 7,
}


def style(variant: str) -> Style:
    """The look of a variant; others than these have one of them, by their place among all."""
    others = [name for name in VARIANTS if name not in LOOKS]
    place = others.index(variant) if variant in others else len(others)
    return STYLES[LOOKS.get(variant, 2 + place % (len(STYLES) - 2))]
