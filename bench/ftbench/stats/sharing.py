"""What threads fight over: conclusions from turns with copies of a dataset's parts (``--why``)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ftbench.measure.sharing import ALL, ALONE, COPIED, KEPT, OBJECT, SHARED
from ftbench.stats.statistics import Ratio, ratio

MATTERS = 1.05
"""Factor from which an effect is named."""
FALSE_FINDS = 0.05
"""Probability that a dataset without shared parts has one named."""


@dataclass(frozen=True)
class SharedPart:
    """One attribute, with what sharing it costs and what a copy of it alone brings."""

    name: str
    harm: Ratio
    """Samples/s of threads that share nothing, over those of threads that share this attribute."""
    cure: Ratio
    """Samples/s with a copy of this attribute and the object, over those with the object alone."""
    fought_over: bool
    """True if sharing it is shown to cost more than MATTERS."""


@dataclass(frozen=True)
class Why:
    """Why threads scale as they do."""

    threads: int
    shared: Ratio
    """Samples/s of all threads over those of one."""
    copied: Ratio
    """The same if each thread has a copy of everything."""
    gain: Ratio
    """Samples/s with a copy of everything over those with everything shared."""
    parts: list[SharedPart]
    """The attribute that costs most first."""
    busy: float
    """Share of their time that the threads with copies spend on a CPU, 0 to 1."""
    lacking: dict[str, str]
    """{part: why it has no copy}"""

    @property
    def culprits(self) -> list[SharedPart]:
        return [part for part in self.parts if part.fought_over]


def why(
    threads: int,
    rates: Mapping[str, Sequence[float]],
    busy: Mapping[str, Sequence[float]],
    lacking: dict[str, str],
) -> Why:
    """Return the conclusions from the *rates* (samples/s of each way in each round)."""
    names = [name.removeprefix(KEPT) for name in rates if name.startswith(KEPT)]
    parts = []
    for name in names:
        harm = ratio(rates[ALL], rates[KEPT + name])
        cure = ratio(rates[COPIED + name], rates[OBJECT])
        parts.append(SharedPart(name, harm, cure, _matters(harm, len(names))))
    best = ALL if ALL in rates else SHARED
    return Why(
        threads=threads,
        shared=ratio(rates[SHARED], rates[ALONE]),
        copied=ratio(rates[best], rates[ALONE]),
        gain=ratio(rates[best], rates[SHARED]),
        parts=sorted(parts, key=lambda part: part.harm.ratio, reverse=True),
        busy=fmean(busy[best]),
        lacking=lacking,
    )


def _matters(effect: Ratio, tests: int) -> bool:
    """True if *effect* is above MATTERS, also if it is one of this number of *tests* (Bonferroni).

    The interval is that of the logarithm, so it is widened by the ratio of the normal quantiles.
    """
    if effect.p is None or effect.low is None:
        return False
    return effect.p < FALSE_FINDS / tests and math.log(effect.low) > 0 and effect.ratio > MATTERS
