"""The figure that a process contributes to a comparison. Standard library of Python 3.9, like ftbench.arguments."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean


def typical(seconds: Sequence[float]) -> float:
    """Return the geometric mean of the faster half of a process's turns (seconds); of at least one positive value.

    What else a machine does makes turns longer and never shorter (Chen and Revels, "Robust benchmarking in noisy
    environments", 2016, https://arxiv.org/abs/1608.04295). The single fastest would be a matter of luck.
    """
    return geometric_mean(sorted(seconds)[: (len(seconds) + 1) // 2])
