"""The plan of a scenario: its comparisons, and the order in
which candidates are dropped if time is short.

A comparison is made in every case of the scenario, with the run's highest number of workers. A
comparison whose `every_count` is true is also made with fewer workers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter

from ftbench.plan.candidates import (
    CONFIGS,
    SERIAL,
    Candidate,
    Pair,
    Ranking,
    by_key,
    in_order,
)
from ftbench.plan.case import Case

IMPORTANCE, COUNT, CASE = "importance", "count", "case"
WITHOUT_CASES = (Case("", ""),)


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a candidate. The plan fills
    in `workers` and `case` where they are None.
    """

    config: str
    variant: str
    workers: int | None = None
    case: str | None = None

    def candidate(self, workers: int, case: str) -> Candidate:
        """Return this side's candidate, with `workers` or `case`
        where this side's own value is None.
        """
        if self.workers is not None:
            workers = self.workers
        if self.case is not None:
            case = self.case
        return Candidate(self.config, self.variant, workers, case)


@dataclass(frozen=True)
class Comparison:
    """Two sides whose ratio is reported. If `denominator` is None,
    the numerator is measured but not compared.
    """

    numerator: Side
    denominator: Side | None = None
    why: str = ""
    """The subject of the comparison, in a few words."""
    kind: str = "chosen"
    """See Pair.kind."""
    asked: bool = False
    """See Pair.asked. If any comparison is asked for,
    a quick run makes only the comparisons that are.
    """
    importance: int | None = None
    """Drop order: lower is dropped later. Default: the first comparison last, then those asked,
    then by position.
    """
    every_count: bool = False
    """True if the comparison is made with every number of workers, not only the highest."""
    quick: str = "most"
    """Numbers of workers in a quick run: "most", "ends" (the most and the fewest),
    or "" for no comparison.
    """
    measures: bool = True
    """False if the comparison is only made where other comparisons need both candidates anyway."""
    first_only: bool = False
    """True if only the scenario's first metric is compared."""

    @property
    def sides(self) -> tuple[Side, ...]:
        if self.denominator is None:
            return (self.numerator,)
        return self.numerator, self.denominator

    @property
    def configs(self) -> set[str]:
        return {side.config for side in self.sides}


@dataclass(frozen=True)
class ComparisonPlan:
    """The comparisons of a scenario, its cases, and the order in which candidates are dropped."""

    comparisons: tuple[Comparison, ...] | Callable[[tuple[str, ...]], tuple[Comparison, ...]]
    """The most important first; or a function that returns them for the run's configurations."""
    cases: tuple[Case, ...] = WITHOUT_CASES
    """Cases of the scenario, the most important first;
    one case without a name if the scenario has no cases.
    """
    quick_cases: tuple[str, ...] = ()
    """Names of the cases of a quick run; () for all."""
    order: tuple[str, ...] = (IMPORTANCE, COUNT, CASE)
    """Criteria for dropping candidates, the strongest first.
    Without CASE, all cases are dropped together.
    """

    def of(self, configs: Iterable[str]) -> tuple[Comparison, ...]:
        """Return the comparisons whose sides all have a configuration in `configs`.

        If no comparison of two sides is left, return each side with such a configuration,
        to be measured alone.
        """
        available = set(configs)
        planned = self._planned(available)
        possible = tuple(c for c in planned if c.configs <= available)
        if _of_two_sides(possible) or not _of_two_sides(planned):
            return possible
        alone: dict[Side, None] = {}
        for comparison in planned:
            alone |= dict.fromkeys(comparison.sides)
        return tuple(Comparison(side) for side in alone if side.config in available)

    def _planned(self, configs: Iterable[str]) -> tuple[Comparison, ...]:
        """Return the comparisons that are planned for a run of these configurations."""
        if callable(self.comparisons):
            return self.comparisons(tuple(in_order(configs)))
        return self.comparisons

    def ranked(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> Ranking:
        """Return the candidates to measure, sorted by drop rank.

        With 0 among the numbers of workers, each configuration that is measured is also measured
        without workers, in each case.
        """
        numbers = set(workers)
        counts = sorted(numbers - {0}, reverse=True)
        cases = self._case_names(quick)
        keys: dict[Candidate, tuple[int, ...]] = {}
        for position, comparison in enumerate(self._measured(configs, quick)):
            importance = _importance(comparison, position)
            for count, side in itertools.product(
                _counts(comparison, counts, quick), comparison.sides
            ):
                for candidate, key in self._keys(side, count, importance, counts, cases):
                    keys[candidate] = min(key, keys.get(candidate, key))
        if 0 in numbers:
            for candidate, key in self._without_workers(keys, cases):
                keys.setdefault(candidate, key)
        ordered = sorted(set(keys.values()))
        ranked = Ranking((ordered.index(key), candidate) for candidate, key in keys.items())
        ranked.sort(key=itemgetter(0))
        return ranked

    def _case_names(self, quick: bool) -> list[str]:
        """Return the names of the cases that a full or quick run measures."""
        names = [case.name for case in self.cases]
        if quick and self.quick_cases:
            return [name for name in names if name in self.quick_cases]
        return names

    def _measured(self, configs: Iterable[str], quick: bool) -> list[Comparison]:
        """Return the comparisons whose sides a full or quick run measures."""
        possible = list(filter(attrgetter("measures"), self.of(configs)))
        if not quick:
            return possible
        short = list(filter(attrgetter("asked"), possible))
        if not short:
            short = list(filter(attrgetter("quick"), possible))
        if _of_two_sides(short):
            return short
        # Of a single configuration there may be no quick comparison: then the first.
        return [*possible[:1], *short]

    def _keys(
        self, side: Side, count: int, importance: int, counts: list[int], cases: list[str]
    ) -> Iterator[tuple[Candidate, tuple[int, ...]]]:
        """Yield (candidate, criteria for dropping it) for each case
        of a side with this number of workers.

        *counts*: all numbers of workers, the highest first. *cases*:
        all cases, the most important first.
        """
        rank = {IMPORTANCE: importance, COUNT: 0, CASE: 0}
        if side.workers is None:
            # The ends of the curve say most, its middle least.
            places = dict.fromkeys([counts[0], counts[-1], *counts[1:-1]])
            rank[COUNT] = list(places).index(count)
        if side.case is not None:
            cases = [side.case]
        for position, case in enumerate(cases):
            rank[CASE] = position
            yield side.candidate(count, case), tuple(rank[criterion] for criterion in self.order)

    def _without_workers(
        self, candidates: Iterable[Candidate], cases: list[str]
    ) -> list[tuple[Candidate, tuple[int, ...]]]:
        """Return [(candidate without workers, criteria for dropping it), ...] for each
        configuration of *candidates* in each case.
        """
        configs, _ = configs_and_counts(candidates)
        keys = []
        for config, (position, case) in itertools.product(in_order(configs), enumerate(cases)):
            # An end of the curve, as the fewest workers are.
            rank = {IMPORTANCE: 1, COUNT: 1, CASE: position}
            key = tuple(rank[criterion] for criterion in self.order)
            keys.append((Candidate(config, SERIAL, 0, case), key))
        return keys

    def pairs(self, candidates: Iterable[Candidate]) -> list[Pair]:
        """Return the pairs among the candidates, ordered by comparison, number of workers (highest
        first) and case.
        """
        candidates = list(candidates)
        keys = by_key(candidates).keys()
        configs, counts = configs_and_counts(candidates)
        comparisons = self.of(configs)

        def number(count: int) -> int:
            return sum(len(self._made(comparison, count, keys)) for comparison in comparisons)

        # A side may set a higher number of workers than the run has:
        # count the pairs to find the run's highest.
        most = max(counts, key=number, default=0)
        pairs: dict[tuple[str, str], Pair] = {}
        for comparison in comparisons:
            own_counts = [most]
            if comparison.every_count:
                own_counts = counts
            for count in own_counts:
                for pair in self._made(comparison, count, keys):
                    pairs.setdefault((pair.numerator, pair.denominator), pair)
        return list(pairs.values())

    def _made(self, comparison: Comparison, count: int, keys: Container[str]) -> list[Pair]:
        """Return the pairs of a comparison with this number of workers, in each case, whose
        candidates have *keys*.
        """
        pairs: list[Pair] = []
        if comparison.denominator is None:
            return pairs
        for case in self.cases:
            a = comparison.numerator.candidate(count, case.name).key
            b = comparison.denominator.candidate(count, case.name).key
            if a != b and a in keys and b in keys:
                attributes = comparison.why, comparison.first_only, comparison.asked
                pairs.append(Pair(comparison.kind, a, b, *attributes))
        return pairs


def configs_and_counts(candidates: Iterable[Candidate]) -> tuple[set[str], list[int]]:
    """Return (the configurations of candidates, their numbers of workers, the highest first)."""
    configs, counts = set(), set()
    for candidate in candidates:
        configs.add(candidate.config)
        counts.add(candidate.workers)
    return configs, sorted(counts, reverse=True)


def _of_two_sides(comparisons: Iterable[Comparison]) -> bool:
    """True if any of the comparisons compares two sides."""
    return any(comparison.denominator for comparison in comparisons)


def _importance(comparison: Comparison, position: int) -> int:
    if comparison.importance is not None:
        return comparison.importance
    if position == 0:
        return 0
    if comparison.asked:
        return 1
    return 1 + position


def _counts(comparison: Comparison, counts: list[int], quick: bool) -> list[int]:
    """Return those of the numbers of workers, the highest first,
    with which a run makes a comparison.
    """
    if not comparison.every_count:
        return counts[:1]
    if not quick:
        return counts
    if comparison.quick == "ends":
        return sorted({counts[0], counts[-1]})
    return counts[:1]


# This project's loader in every configuration, and its most frequent opponents.
THREADS = {config: Side(config, "loader-thread") for config in CONFIGS}
PROCESSES = {config: Side(config, "loader-process") for config in CONFIGS}
OURS = tuple(itertools.chain.from_iterable(zip(THREADS.values(), PROCESSES.values(), strict=True)))
FT, GIL = THREADS["ft"], PROCESSES["gil"]
TORCH, SPAWN = Side("gil", "torch-process"), Side("gil", "loader-spawn")
NODES, SPDL = Side("ft", "nodes-thread"), Side("ft", "spdl")

HEADLINE = Comparison(
    FT, GIL, why="threads without the GIL against processes with it", kind="headline"
)
EFFECT_OF_THE_GIL = Comparison(FT, THREADS["ft-gil"], why="effect of the GIL", kind="gil", quick="")
METHODS = tuple(
    Comparison(THREADS[config], PROCESSES[config], kind="method", quick="")
    for config in ("ft", "gil")
)
# The comparisons of a scenario that needs no special ones.
USUAL = (HEADLINE, EFFECT_OF_THE_GIL, *METHODS)


def with_every_count(comparisons: Iterable[Comparison]) -> tuple[Comparison, ...]:
    """Return copies of the comparisons that a full run makes with every number of workers.

    A quick run makes them only with the highest and the lowest number, or not at all if their
    `quick` is empty.
    """
    copies = []
    for comparison in comparisons:
        quick = comparison.quick and "ends"
        copies.append(replace(comparison, every_count=True, quick=quick))
    return tuple(copies)


def grid(
    cases: tuple[Case, ...] = WITHOUT_CASES,
    first: tuple[Comparison, ...] = (),
    more: tuple[Comparison, ...] = (),
    quick: str = "most",
) -> ComparisonPlan:
    """Return a plan that compares threads and processes in every configuration,
    number of workers and case.

    Comparisons of the kinds headline and gil (see Pair.kind) are dropped last. `first` and `more`
    are further comparisons, reported before and after the others. `quick` is Comparison.quick of
    the kinds gil, build and method.
    """

    def comparison(kind: str, a: Side, b: Side, importance: int, why: str = "") -> Comparison:
        return Comparison(a, b, why, kind, importance=importance, every_count=True, quick=quick)

    scaling = (
        Comparison(
            side,
            replace(side, workers=1),
            kind="scaling",
            every_count=True,
            measures=False,
            first_only=True,
        )
        for side in OURS
    )
    return ComparisonPlan(
        (
            *first,
            replace(comparison("headline", FT, GIL, 0, HEADLINE.why), quick="most"),
            comparison("gil", FT, THREADS["ft-gil"], 0, EFFECT_OF_THE_GIL.why),
            comparison(
                "build", THREADS["ft-gil"], THREADS["gil"], 1, "cost of the free-threaded build"
            ),
            comparison("method", THREADS["gil"], PROCESSES["gil"], 1),
            comparison("method", THREADS["ft-gil"], PROCESSES["ft-gil"], 2),
            comparison("method", THREADS["ft"], PROCESSES["ft"], 1),
            *scaling,
            *more,
        ),
        cases or WITHOUT_CASES,
        order=(COUNT, IMPORTANCE, CASE),
    )
