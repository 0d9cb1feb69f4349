"""Candidates whose own turns vary, and whose work in the long run is known.

A pattern gives the work of each turn of a process, relative to that of a steady candidate; in the
long run, its mean is 1. So over all turns, both load as fast. A benchmark that selects turns by
their speed finds a difference.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

Pattern = Callable[[random.Random, int], list[float]]

# A window of slow turns: the part of turns that are slow,
# how likely the next turn is slow too, how slow.
SLOW, STAYS, SLOWER = 0.2, 0.6, 1.3


def steady(rng: random.Random, turns: int) -> list[float]:
    """Return the same work for all turns."""
    return [1.0] * turns


def windows(rng: random.Random, turns: int) -> list[float]:
    """Return turns of which a fifth are 30% longer, several in succession."""
    slow, works = rng.random() < SLOW, list[float]()
    for _ in range(turns):
        works.append(SLOWER if slow else 1.0)
        slow = rng.random() < (STAYS if slow else (1 - STAYS) * SLOW / (1 - SLOW))
    return _scaled(works, 1 + SLOW * (SLOWER - 1))


def bimodal(rng: random.Random, turns: int) -> list[float]:
    """Return turns half of which, drawn at random,
    take a third longer than the others: a deviation of 14%.
    """
    return [rng.choice((0.86, 1.14)) for _ in range(turns)]


def pauses(rng: random.Random, turns: int) -> list[float]:
    """Return turns of which one in ten takes twice as long, as with a collector or a checkpoint."""
    return _scaled([2.0 if rng.random() < 0.1 else 1.0 for _ in range(turns)], 1.1)


def drift(rng: random.Random, turns: int) -> list[float]:
    """Return turns that become longer by a third in the course of the process."""
    return [0.85 + 0.3 * turn / max(1, turns - 1) for turn in range(turns)]


def slow_first(rng: random.Random, turns: int) -> list[float]:
    """Return turns the first of which takes half as long again as each other one."""
    return _scaled([1.5] + [1.0] * (turns - 1), 1 + 0.5 / turns)


def _scaled(works: Sequence[float], mean: float) -> list[float]:
    return [work / mean for work in works]


PATTERNS: dict[str, Pattern] = {
    pattern.__name__.replace("_", "-"): pattern
    for pattern in (steady, windows, bimodal, pauses, drift, slow_first)
}
"""All patterns, by name."""
