"""Who takes part in a scenario, and who is compared with whom: a list of comparisons.

A comparison is made under every case of the scenario, with the most workers of the run, and with fewer where
`every_count` asks for them. What there is no time for is given up in an order that the plan names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ftbench.plan.candidates import CONFIGS, Candidate, Pair, Target, plural
from ftbench.plan.case import Case

IMPORTANCE, COUNT, CASE = "importance", "count", "case"
WITHOUT_CASES = (Case("", ""),)


@dataclass(frozen=True)
class Side:
    """Who is compared: with the workers of the run and under the case of the comparison, or with its own."""

    config: str
    variant: str
    workers: int | None = None
    case: str | None = None

    def candidate(self, workers: int, case: str) -> Candidate:
        """It, with so many workers under this case."""
        workers = workers if self.workers is None else self.workers
        return Candidate(self.config, self.variant, workers, case if self.case is None else self.case)


@dataclass(frozen=True)
class Comparison:
    """Two entries whose ratio is of interest; without a denominator, one that is shown beside the others."""

    numerator: Side
    denominator: Side | None = None
    target: Target | None = None
    """What the ratio should be, if anything. A quick run has only what has a target, if anything has."""
    why: str = ""
    """What it is about, in a few words."""
    kind: str = "chosen"
    """ftbench.plan.candidates.Pair's."""
    importance: int | None = None
    """The lower, the later it is given up. If None: the first of the list is last, what has a target before it."""
    every_count: bool = False
    """Whether it is made with all numbers of workers, rather than the highest alone."""
    quick: str = "most"
    """What a quick run has of it: "most" workers, "ends" (the most and the fewest), or "" for nothing."""
    measures: bool = True
    """Whether its entries take part for its sake; else it is made where others bring them."""
    first_only: bool = False
    """Of the scenario's first metric alone."""

    @property
    def entries(self) -> tuple[Side, ...]:
        return (self.numerator, self.denominator) if self.denominator else (self.numerator,)


def at_least(value: float) -> Target:
    return Target("least", value)


def at_most(value: float) -> Target:
    return Target("most", value)


@dataclass(frozen=True)
class ComparisonPlan:
    """The comparisons of a scenario."""

    comparisons: tuple[Comparison, ...] | Callable[[tuple[str, ...]], tuple[Comparison, ...]]
    """The most important first; or a function that gives them for configurations."""
    cases: tuple[Case, ...] = WITHOUT_CASES
    """The conditions that it is measured under, the most important first; one without a name if there are none."""
    quick_cases: tuple[str, ...] = ()
    """The names of those that a quick run has; all if empty."""
    order: tuple[str, str, str] = (IMPORTANCE, COUNT, CASE)
    """What decides first who is given up: the comparison, the number of workers or the case."""

    def of(self, configs: Iterable[str]) -> tuple[Comparison, ...]:
        """The comparisons in these configurations; if there are none, what is left of them, with nobody to compare."""
        configs = tuple(config for config in CONFIGS if config in set(configs))
        listed = self.comparisons(configs) if callable(self.comparisons) else self.comparisons
        possible = tuple(c for c in listed if {entry.config for entry in c.entries} <= set(configs))
        if any(c.denominator for c in possible) or not any(c.denominator for c in listed):
            return possible
        alone = dict.fromkeys(entry for c in listed for entry in c.entries if entry.config in configs)
        return tuple(Comparison(entry) for entry in alone)

    def ranked(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Candidate]]:
        """(rank, candidate): the lower the rank, the later it is given up for lack of time. Rank 0 always stays."""
        possible = tuple(c for c in self.of(configs) if c.measures)
        if quick:
            short = [c for c in possible if c.target] or [c for c in possible if c.quick]
            possible = tuple(short or possible[:1])
        counts = sorted(set(workers), reverse=True)
        # The ends of the curve say most, its middle least.
        places = {count: place for place, count in enumerate(dict.fromkeys([counts[0], counts[-1], *counts[1:-1]]))}
        cases = [case.name for case in self.cases if not (quick and self.quick_cases) or case.name in self.quick_cases]
        found: dict[Candidate, tuple[int, ...]] = {}
        for position, comparison in enumerate(possible):
            curve = comparison.every_count and (not quick or comparison.quick == "ends")
            for count in counts if curve and not quick else sorted({counts[0], counts[-1 if curve else 0]}):
                for entry in comparison.entries:
                    for case in cases if entry.case is None else [entry.case]:
                        who = entry.candidate(count, case)
                        rank = {
                            IMPORTANCE: _importance(comparison, position),
                            COUNT: places[count] if entry.workers is None else 0,
                            CASE: cases.index(case) if entry.case is None else 0,
                        }
                        key = tuple(rank[name] for name in self.order)
                        found[who] = min(key, found.get(who, key))
        ranks = {key: rank for rank, key in enumerate(sorted(set(found.values())))}
        return sorted(((ranks[key], who) for who, key in found.items()), key=lambda each: each[0])

    def pairs(self, candidates: Iterable[Candidate]) -> list[Pair]:
        """Every comparison that the candidates allow: by comparison, then the most workers first, then by case."""
        there = {c.key: c for c in candidates}
        counts = sorted({c.workers for c in there.values()}, reverse=True)
        comparisons = [c for c in self.of({c.config: None for c in there.values()}) if c.denominator]

        def made(comparison: Comparison, count: int) -> list[tuple[Candidate, Candidate]]:
            both = (tuple(e.candidate(count, case.name) for e in comparison.entries) for case in self.cases)
            return [(a, b) for a, b in both if a.key != b.key and {a.key, b.key} <= set(there)]

        # Entries may have more workers of their own: the run's most are those with which most is compared.
        most = max(counts, key=lambda count: sum(len(made(c, count)) for c in comparisons), default=0)
        pairs: dict[tuple[str, str], Pair] = {}
        for comparison in comparisons:
            for count in counts if comparison.every_count else [most]:
                for a, b in made(comparison, count):
                    title = self._title(a, b) + (f": {comparison.why}" if comparison.why else "")
                    target, first_only = comparison.target, comparison.first_only
                    pair = Pair(comparison.kind, title, a.key, b.key, target, first_only, target is not None)
                    pairs.setdefault((a.key, b.key), pair)
        return list(pairs.values())

    def _title(self, a: Candidate, b: Candidate) -> str:
        """Whose ratio it is; what both have in common is said once."""
        titles = {case.name: case.title for case in self.cases}
        of_a, of_b = f"{a.config} {plural(a.variant)}", f"{b.config} {plural(b.variant)}"
        where = f", {titles.get(a.case, a.case)}" if a.case else ""
        if (a.workers, a.case) == (b.workers, b.case):
            return f"{of_a} / {of_b}" + (f", x{a.workers}" if a.workers else "") + where
        if of_a == of_b and a.case == b.case:
            return f"{of_a}: {a.workers} workers / {b.workers or 'no'} worker{'s' if b.workers != 1 else ''}{where}"
        if of_a == of_b and a.workers == b.workers:
            return f"{of_a} x{a.workers}: {titles.get(a.case, a.case)} / {titles.get(b.case, b.case)}"
        return f"{a.title} / {b.title}"


def _importance(comparison: Comparison, position: int) -> int:
    if comparison.importance is not None:
        return comparison.importance
    return 0 if position == 0 else 1 if comparison.target else 1 + position


# This project's loader in every configuration, and whom it is compared with most.
THREADS = {config: Side(config, "loader-thread") for config in CONFIGS}
PROCESSES = {config: Side(config, "loader-process") for config in CONFIGS}
OURS = tuple(who[config] for config in CONFIGS for who in (THREADS, PROCESSES))
FT, GIL = THREADS["ft"], PROCESSES["gil"]
TORCH, SPAWN = Side("gil", "torch-process"), Side("gil", "loader-spawn")
NODES, SPDL = Side("ft", "nodes-thread"), Side("ft", "spdl")

HEADLINE = Comparison(FT, GIL, why="threads without the GIL against processes with it", kind="headline")
EFFECT_OF_THE_GIL = Comparison(FT, THREADS["ft-gil"], why="effect of the GIL", kind="gil", quick="")
METHODS = tuple(Comparison(THREADS[config], PROCESSES[config], kind="method", quick="") for config in ("ft", "gil"))
# What a scenario compares that has no reason for other comparisons.
USUAL = (HEADLINE, EFFECT_OF_THE_GIL, *METHODS)


def with_every_count(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """They, with all numbers of workers; of a quick one the ends of the curve."""
    return tuple(replace(c, every_count=True, quick="ends" if c.quick else "") for c in comparisons)


def grid(
    cases: tuple[Case, ...] = WITHOUT_CASES,
    first: tuple[Comparison, ...] = (),
    more: tuple[Comparison, ...] = (),
    quick: str = "most",
) -> ComparisonPlan:
    """Threads and processes in every configuration, with every number of workers and under every case.

    The headline and the effect of the GIL stay longest. `first` and `more` are further comparisons, told before and
    after these; `quick` is what a quick run has of those beside the headline.
    """

    def comparison(kind: str, a: Side, b: Side, importance: int, why: str = "") -> Comparison:
        return Comparison(a, b, None, why, kind, importance, every_count=True, quick=quick)

    scaling = (
        Comparison(who, replace(who, workers=1), kind="scaling", every_count=True, measures=False, first_only=True)
        for who in OURS
    )
    return ComparisonPlan(
        (
            *first,
            replace(comparison("headline", FT, GIL, 0, HEADLINE.why), quick="ends"),
            comparison("gil", FT, THREADS["ft-gil"], 0, EFFECT_OF_THE_GIL.why),
            comparison("build", THREADS["ft-gil"], THREADS["gil"], 1, "cost of the free-threaded build"),
            *(comparison("method", THREADS[c], PROCESSES[c], 2 if c == "ft-gil" else 1) for c in CONFIGS),
            *scaling,
            *more,
        ),
        cases or WITHOUT_CASES,
        order=(COUNT, IMPORTANCE, CASE),
    )
