"""The waterfall: a chain of candidates from torch's DataLoader to threads without the GIL, one
change a step; of a command, from the GIL build to the free-threaded build without the GIL.

Each step changes one thing, so its ratio is the effect of that change alone. The product of these
ratios is the total. A further step gives each thread a copy of the dataset. It is not in the total,
which is the effect of loader and Python alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ftbench.plan.candidates import Candidate, Pair, by_key, in_order
from ftbench.plan.case import Case
from ftbench.plan.comparisons import (
    CASE,
    COUNT,
    IMPORTANCE,
    WITHOUT_CASES,
    Comparison,
    ComparisonPlan,
    Side,
    configs_and_counts,
)

STEP, TOTAL, SCALING = "step", "total", "scaling"
TODAY = "torch-process"
PROCESSES, THREADS = "loader-process", "loader-thread"
COPIES = "loader-copies"
RUNS = "bare-command"
REMOVED = "the GIL removed"
COPIED = "a copy of the dataset each"
IN_ALL = "in all"
"""Name of the whole waterfall, in the place of a step's."""
# A run ends once the confidence interval of every step is no wider than this, up and down.
PRECISION = 0.05
CHANGES = {
    ("gil", "ft-gil"): "the free-threaded build, GIL on",
    ("ft-gil", "ft"): REMOVED,
    ("gil", "ft"): "the free-threaded build, GIL removed",
}


def cells(configs: Iterable[str], variant: str = THREADS) -> list[tuple[Side, str]]:
    """Return [(side to measure, label), ...] in order. A label names the change from the previous
    side to this one.

    The first side is torch's loader, and its label names that loader. Of a command (*variant*
    RUNS), there are only the sides in which the Python changes. *configs*: one or more of "gil",
    "ft-gil", "ft".
    """
    configs = in_order(configs)
    first = configs[0]
    if variant == RUNS:
        return [(Side(first, RUNS), RUNS), *_pythons(configs, RUNS)]
    threads = "threads instead of processes"
    if first != "ft":
        threads += ", GIL on"
    chain = [
        (Side(first, TODAY), "torch DataLoader, processes"),
        (Side(first, PROCESSES), "this loader, still processes"),
        (Side(first, THREADS), threads),
    ]
    return chain + _pythons(configs, THREADS)


def _pythons(configs: list[str], variant: str) -> list[tuple[Side, str]]:
    """Return the sides that follow when only the configuration changes."""
    return [
        (Side(after, variant), CHANGES[before, after])
        for before, after in zip(configs, configs[1:])
    ]


class WaterfallPlan(ComparisonPlan):
    """Plan that measures the sides of a waterfall (`cells`) in every case, with the run's highest
    number of workers.

    In the first case, sides other than loader-process are also measured with fewer workers. A quick
    run has only the first case, with the most workers. Candidates of the same case and number of
    workers are dropped together.

    With `copies`, threads with a copy of the dataset each are measured too, where there are threads
    without the GIL. They are dropped before the others of their case and number of workers.
    """

    def __init__(self, cases: tuple[Case, ...] = WITHOUT_CASES, copies: bool = False):
        first = cases[0].name

        def comparisons(configs: tuple[str, ...]) -> tuple[Comparison, ...]:
            importance = {side: 0 for side, _ in cells(configs)}
            if copies and "ft" in configs:
                importance[Side("ft", COPIES)] = 1
            in_every_case, in_first_case = [], []
            for side, rank in importance.items():
                in_every_case.append(Comparison(side, importance=rank))
                if side.variant != PROCESSES:
                    # the first case is also measured with fewer workers
                    of_first = replace(side, case=first)
                    in_first_case.append(Comparison(of_first, importance=rank, every_count=True))
            return (*in_every_case, *in_first_case)

        super().__init__(comparisons, cases, quick_cases=(first,), order=(CASE, COUNT, IMPORTANCE))

    def pairs(self, candidates: Iterable[Candidate]) -> list[Pair]:
        """Return the pairs of each chain, then the pairs that compare N workers with one worker.

        The first pair of a chain compares its last with its first candidate. The further pairs, one
        for each step, compare the candidate after the step with the candidate before it. The last
        of them compares threads that have copies with threads that share the dataset.
        """
        measured = by_key(candidates)
        _, counts = configs_and_counts(measured.values())
        pairs = []
        for case in self.cases:
            for count in counts:
                chain = _chain(measured, count, case.name)
                has_most_workers = count == counts[0]
                pairs += _pairs_of_chain(chain, asked=has_most_workers)
                pairs += _pairs_of_copies(measured, count, case.name, asked=has_most_workers)
        for c in measured.values():
            alone = replace(c, workers=1)
            if c.workers > 1 and alone.key in measured:
                pairs.append(Pair(SCALING, c.key, alone.key, first_only=True))
        return pairs


class CommandPlan(ComparisonPlan):
    """Plan that runs a command in each configuration, in every case."""

    def __init__(self, cases: tuple[Case, ...]):
        def comparisons(configs: tuple[str, ...]) -> tuple[Comparison, ...]:
            sides = [replace(side, workers=0) for side, _ in cells(configs, RUNS)]
            return tuple(Comparison(side, importance=0) for side in sides)

        super().__init__(comparisons, cases, order=(IMPORTANCE,))

    def pairs(self, candidates: Iterable[Candidate]) -> list[Pair]:
        """Return the pairs of each case's chain, then those of each later case and the first."""
        measured = by_key(candidates)
        pairs = []
        for case in self.cases:
            pairs += _pairs_of_chain(_chain(measured, 0, case.name, RUNS), asked=True)
        for c in measured.values():
            first = replace(c, case=self.cases[0].name)
            if c != first and first.key in measured:
                pairs.append(Pair(SCALING, c.key, first.key, first_only=True))
        return pairs


def _chain(
    measured: Mapping[str, Candidate], workers: int, case: str, variant: str = THREADS
) -> list[str]:
    """Return the keys of the chain of a case, in order,
    as far as they are among those of *measured*.
    """
    configs, _ = configs_and_counts(measured.values())
    keys = []
    for side, _ in cells(configs, variant):
        key = side.candidate(workers, case).key
        if key in measured:
            keys.append(key)
    return keys


def _pairs_of_chain(chain: list[str], asked: bool) -> list[Pair]:
    """Return the pair of the whole chain, then one for each of its steps;
    [] for a chain without steps.
    """
    steps = [Pair(STEP, after, before, asked=asked) for before, after in zip(chain, chain[1:])]
    if not steps:
        return []
    return [Pair(TOTAL, chain[-1], chain[0], asked=asked), *steps]


def _pairs_of_copies(
    measured: Mapping[str, Candidate], workers: int, case: str, asked: bool
) -> list[Pair]:
    """Return the pair of threads with copies of the dataset and threads without; [] if one of the
    two is not among *measured*.
    """
    copies = Candidate("ft", COPIES, workers, case)
    shared = replace(copies, variant=THREADS)
    if copies.key not in measured or shared.key not in measured:
        return []
    return [Pair(STEP, copies.key, shared.key, asked=asked)]
