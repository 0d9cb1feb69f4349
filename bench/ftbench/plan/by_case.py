"""A contest of the same few comparisons under every case of a scenario.

ftbench.plan.grid has all combinations and ftbench.plan.chosen single ones; this is for scenarios whose cases are the
point and whose contestants are more than threads and processes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ftbench.plan.contestants import Contestant, Pair, plural
from ftbench.plan.scenario import Case


@dataclass(frozen=True)
class Versus:
    """Two contestants, each a (configuration, variant), whose ratio is of interest under every case."""

    kind: str
    """ftbench.plan.contestants.Pair's: "headline", "gil", "method" or "chosen"."""
    numerator: tuple[str, str]
    denominator: tuple[str, str]
    why: str = ""
    """What the comparison is about, in a few words."""
    quick: bool = False
    """Whether a quick run has it."""


HEADLINE = Versus(
    "headline",
    ("ft", "loader-thread"),
    ("gil", "loader-process"),
    "threads without the GIL against processes with it",
    quick=True,
)
EFFECT_OF_THE_GIL = Versus("gil", ("ft", "loader-thread"), ("ft-gil", "loader-thread"), "effect of the GIL")
METHODS = (
    Versus("method", ("ft", "loader-thread"), ("ft", "loader-process")),
    Versus("method", ("gil", "loader-thread"), ("gil", "loader-process")),
)
# What a scenario compares that has no reason for other comparisons.
USUAL = (HEADLINE, EFFECT_OF_THE_GIL, *METHODS)


@dataclass(frozen=True)
class ByCase:
    """The comparisons under each case."""

    cases: tuple[Case, ...]
    """The most important first: it stays whatever else is given up."""
    comparisons: tuple[Versus, ...] = USUAL
    quick_cases: tuple[str, ...] = ()
    """The names of those that a quick run has; all if empty."""
    every_count: bool = False
    """Whether all numbers of workers are measured, rather than the highest alone."""

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
        """(rank, contestant), as ftbench.plan.contestants.Contest says.

        With configurations that leave no comparison, the entries that they do leave are measured.
        """
        entries = self._entries(tuple(configs), quick)
        if not entries:
            return []
        counts = sorted(set(workers), reverse=True)
        if not self.every_count:
            counts = counts[:1]
        elif quick:
            counts = [counts[0], counts[-1]] if len(counts) > 1 else counts
        else:
            counts = [counts[0], *counts[:0:-1]]  # the ends of the curve first
        cases = [case.name for case in self.cases if not quick or not self.quick_cases or case.name in self.quick_cases]
        result = []
        for position, case in enumerate(cases):
            for entry, importance in entries.items():
                for place, count in enumerate(counts):
                    # The first comparison under every case, then with every number of workers, and only then
                    # the other comparisons.
                    if importance == 0:
                        rank = 1 + place if position or place else 0
                    else:
                        rank = len(counts) + importance + place * len(self.comparisons)
                    result.append((rank, Contestant(*entry, count, case=case)))
        return result

    def _entries(self, configs: tuple[str, ...], quick: bool) -> dict[tuple[str, str], int]:
        """(configuration, variant) and its importance, 0 for the first comparison that can be made."""
        possible = [each for each in self.comparisons if {each.numerator[0], each.denominator[0]} <= set(configs)]
        # A configuration alone may be in nothing that is quick, and is measured all the same.
        wanted = [each for each in possible if each.quick or not quick] or possible[:1]
        entries: dict[tuple[str, str], int] = {}
        for importance, each in enumerate(wanted):
            for entry in (each.numerator, each.denominator):
                entries.setdefault(entry, importance)
        if not entries:
            for each in self.comparisons:
                for entry in (each.numerator, each.denominator):
                    if entry[0] in configs:
                        entries.setdefault(entry, min(len(entries), 1))
        return entries

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """The comparisons whose contestants are there: by comparison, most workers first, then by case."""
        there = {c.key: c for c in contestants}
        counts = sorted({c.workers for c in there.values()}, reverse=True)
        result = []
        for each in self.comparisons:
            for count in counts:
                for case in self.cases:
                    a = Contestant(*each.numerator, count, case=case.name)
                    b = Contestant(*each.denominator, count, case=case.name)
                    if a.key in there and b.key in there:
                        who = f"{a.config} {plural(a.variant)} / {b.config} {plural(b.variant)}"
                        why = f": {each.why}" if each.why else ""
                        result.append(Pair(each.kind, f"{who}, x{count}, {case.title}{why}", a.key, b.key))
        return result
