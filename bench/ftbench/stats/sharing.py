"""What threads fight over: conclusions from turns with copies of a dataset's parts (``--why``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ftbench.measure.sharing import ALL, ALONE, COPIED, KEPT, OBJECT, SHARED
from ftbench.stats.statistics import Ratio, ratio

MATTERS = 1.05
"""Factor from which an effect is named."""
FALSE_FINDS = 0.05
"""Probability that a dataset of which nothing is fought over has a part named."""
WIDEST = 4.0
"""Upper over lower end of an interval of scaling from which nothing can be concluded."""
WAITED_FOR = 0.1
"""Part of the threads' time from which a line is named at which they spend it in addition."""
Rates = Mapping[str, Sequence[float]]
"""{way to load: samples/s in each round}"""


@dataclass(frozen=True)
class SharedPart:
    """One attribute, with what sharing it costs and what a copy of it alone brings."""

    name: str
    """The attribute, or OBJECT: the dataset object without its attributes."""
    kind: str
    """Name of the attribute's class."""
    harm: Ratio
    """Samples/s of threads that share nothing, over those of threads that share this attribute."""
    cured: Ratio
    """Samples/s of all threads, of which each has a copy of this attribute, over those of one."""
    fought_over: bool
    """True if sharing it is shown to cost more than MATTERS."""


@dataclass(frozen=True)
class Why:
    """Why threads scale as they do."""

    threads: int
    shared: Ratio
    """Samples/s of all threads over those of one."""
    copied: Ratio | None
    """The same if each thread has a copy of everything; None if there are no copies."""
    gain: Ratio | None
    """Samples/s with a copy of everything over those with everything shared."""
    parts: list[SharedPart]
    """The attribute that costs most first."""
    lacking: dict[str, str]
    """{attribute without a copy: the reason}; ALL if the dataset has none."""
    unmeasured: list[str]
    """Attributes that cost least in a first look, and were not measured."""
    waits: list[tuple[str, float]]
    """(line, part of the time of all threads that they spend there in addition to one thread)."""
    disturbances: list[str]
    """Phrases on what other programs took of the CPUs."""

    @property
    def unclear(self) -> bool:
        """True if the turns varied too much for a conclusion."""
        ends = ((scaling.low, scaling.high) for scaling in (self.shared, self.best))
        return any(low and high and high > WIDEST * low for low, high in ends)

    @property
    def culprits(self) -> list[SharedPart]:
        if self.unclear:
            return []
        return [part for part in self.parts if part.fought_over]

    @property
    def best(self) -> Ratio:
        """Samples/s of all threads over those of one, with as many copies as there can be."""
        return self.copied or self.shared


def why(threads: int, result: Mapping, disturbances: list[str]) -> Why:
    """Return the conclusions from a *result* of ftbench.measure.sharing.measure."""
    rates, waits = result["rates"], result["waits"]
    copied = gain = None
    if ALL in rates:
        copied = ratio(rates[ALL], rates[ALONE])
        gain = ratio(rates[ALL], rates[SHARED])
    waited = _waited_for(waits[ALONE], waits[SHARED if copied is None else ALL])
    return Why(
        threads=threads,
        shared=ratio(rates[SHARED], rates[ALONE]),
        copied=copied,
        gain=gain,
        parts=_parts(rates, result["kinds"]),
        lacking=result["lacking"],
        unmeasured=result["unmeasured"],
        waits=waited,
        disturbances=disturbances,
    )


def _parts(rates: Rates, kinds: Mapping[str, str]) -> list[SharedPart]:
    """Return the parts that were measured, the one that costs most first."""
    if OBJECT not in rates:
        return []
    measured = [(OBJECT, "", ratio(rates[OBJECT], rates[SHARED]), rates[OBJECT])]
    for way in rates:
        if way.startswith(KEPT):
            name = way.removeprefix(KEPT)
            harm = ratio(rates[ALL], rates[way])
            measured.append((name, kinds[name], harm, rates[COPIED + name]))
    parts = []
    for name, kind, harm, cured in measured:
        fought_over = _matters(harm, len(measured))
        parts.append(SharedPart(name, kind, harm, ratio(cured, rates[ALONE]), fought_over))
    return sorted(parts, key=lambda part: part.harm.ratio, reverse=True)


def _matters(effect: Ratio, tests: int) -> bool:
    """True if *effect* is shown and above MATTERS, also as one of this number of *tests*
    (Bonferroni).
    """
    return effect.p is not None and effect.p < FALSE_FINDS / tests and effect.ratio > MATTERS


def _waited_for(alone: Mapping[str, int], together: Mapping[str, int]) -> list[tuple[str, float]]:
    """Return the lines at which threads together are shown to be for a larger part of their time
    than one thread is, from the samples of each line.
    """
    from scipy.stats import fisher_exact

    of_one, of_all = sum(alone.values()), sum(together.values())
    waits = []
    for line, samples in together.items():
        before = alone.get(line, 0)
        table = [[samples, of_all - samples], [before, of_one - before]]
        longer = samples / of_all - before / max(1, of_one)
        p = fisher_exact(table, "greater").pvalue
        if longer > WAITED_FOR and p < FALSE_FINDS / len(together):
            waits.append((line, longer))
    return sorted(waits, key=lambda wait: wait[1], reverse=True)
