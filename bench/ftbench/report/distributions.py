"""What trials kept beside their metrics: distributions, such as the times of single steps, and curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ftbench.stats.statistics import median

# Shares of a distribution that a chart shows; the tail more closely than the middle, since it is what hurts.
SHARES = (*(n / 100 for n in range(100)), 0.99, 0.992, 0.994, 0.995, 0.996, 0.997, 0.998, 0.999, 1.0)


@dataclass(frozen=True)
class Curve:
    """What a value was over the course of a contestant's trials: of the rounds the median, lowest and highest."""

    unit: str
    over: str
    """What it goes over: "samples loaded"."""
    x: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def curves(scenario: dict) -> dict[str, dict[str, Curve]]:
    """name -> {contestant's key: its curve}, as far as all its rounds have."""
    found: dict[str, dict[str, list[dict]]] = {}
    for one in scenario["rounds"]:
        for trial in one["trials"]:
            for name, kept in trial["distributions"].items():
                if "over" in kept:
                    found.setdefault(name, {}).setdefault(trial["contestant"], []).append(kept)
    result: dict[str, dict[str, Curve]] = {}
    for name, by_key in found.items():
        for key, rounds in by_key.items():
            shortest = min(rounds, key=lambda kept: len(kept["values"]))
            at_each = list(zip(*(kept["values"] for kept in rounds), strict=False))
            result.setdefault(name, {})[key] = Curve(
                shortest["unit"],
                shortest["over"]["title"],
                tuple(shortest["over"]["values"]),
                tuple(median(of) for of in at_each),
                tuple(min(of) for of in at_each),
                tuple(max(of) for of in at_each),
            )
    return result


def pooled(scenario: dict) -> dict[str, tuple[str, dict[str, list[float]]]]:
    """name -> (unit, {contestant's key: its values of all rounds, in order of size}); curves are no distributions."""
    found: dict[str, tuple[str, dict[str, list[float]]]] = {}
    for one in scenario["rounds"]:
        for trial in one["trials"]:
            for name, distribution in trial["distributions"].items():
                if "over" in distribution:
                    continue
                unit, values = found.setdefault(name, (distribution["unit"], {}))
                values.setdefault(trial["contestant"], []).extend(distribution["values"])
    return {
        name: (unit, {key: sorted(values) for key, values in by_key.items() if values})
        for name, (unit, by_key) in found.items()
    }


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values do not exceed.

    Always one of the values: definition 1 of Hyndman and Fan, "Sample quantiles in statistical packages",
    The American Statistician 50, 1996.
    """
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def quantiles(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """(share, value) for a chart."""
    return [(share, quantile(ordered, share)) for share in dict.fromkeys(SHARES)]
