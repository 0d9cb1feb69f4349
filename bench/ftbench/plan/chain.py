"""The chain from what people run today to what they could run, one change at a time.

Each step changes one thing, so its ratio is that thing's doing and nothing else's, and the steps multiply to the
whole. It is the contest of the main job; ftbench.stats.waterfall makes its figures of the comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ftbench.plan.contest import CASE, COUNT, IMPORTANCE, WITHOUT_CASES, Comparison, Contest, Entry
from ftbench.plan.contestants import Contestant, Pair, plural
from ftbench.plan.scenario import Case

STEP, TOTAL, SCALING = "step", "total", "scaling"
TODAY = "torch-process"
PROCESSES, THREADS = "loader-process", "loader-thread"
REMOVED = "the GIL removed"


@dataclass(frozen=True)
class Cell:
    """One place of the chain, and what changes on the way to it."""

    config: str
    variant: str
    change: str


def cells(configs: Iterable[str]) -> tuple[Cell, ...]:
    """The chain through these configurations (of "gil", "ft-gil" and "ft"), as long as they allow.

    It begins with torch's loader and goes on with this one, in the first configuration; then the threads go
    through all of them.
    """
    configs = [config for config in ("gil", "ft-gil", "ft") if config in configs]
    first = configs[0]
    chain = [
        Cell(first, TODAY, "torch DataLoader, processes"),
        Cell(first, PROCESSES, "this loader, still processes"),
        Cell(first, THREADS, "threads instead of processes" + ("" if first == "ft" else ", GIL on")),
    ]
    for before, after in zip(configs, configs[1:]):  # noqa: B905, Python 3.9 reads this
        change = {
            ("gil", "ft-gil"): "the free-threaded build, GIL on",
            ("ft-gil", "ft"): REMOVED,
            ("gil", "ft"): "the free-threaded build, GIL removed",
        }[before, after]
        chain.append(Cell(after, THREADS, change))
    return tuple(chain)


class Chain(Contest):
    """The chain with the most workers, under every case; then its ends and threads with fewer workers: how they scale.

    With --quick the first case's chain alone. The first case's chain always stays whole.
    """

    def __init__(self, cases: tuple[Case, ...] = WITHOUT_CASES):
        first = cases[0].name

        def comparisons(configs: tuple[str, ...]) -> tuple[Comparison, ...]:
            chain = cells(configs)
            whole = [Comparison(Entry(cell.config, cell.variant), importance=0) for cell in chain]
            curve = [
                Comparison(Entry(cell.config, cell.variant, case=first), importance=0, every_count=True)
                for cell in chain
                if cell.variant != PROCESSES
            ]
            return (*whole, *curve)

        super().__init__(comparisons, cases, quick_cases=(first,), order=(CASE, COUNT, IMPORTANCE))

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """The steps and the whole of each chain that is there; then what more workers bring."""
        there = {c.key: c for c in contestants}
        counts = sorted({c.workers for c in there.values()}, reverse=True)
        result = []
        for case in self.cases:
            for count in counts:
                chain = [
                    c
                    for cell in cells({c.config for c in there.values()})
                    if (c := there.get(Contestant(cell.config, cell.variant, count, case.name).key))
                ]
                result += _steps(chain, f", {case.title}" if case.name else "", asked=count == counts[0])
        for c in there.values():
            one = Contestant(c.config, c.variant, 1, c.case)
            if c.workers > 1 and one.key in there:
                title = f"{c.config} {plural(c.variant)}: {c.workers} workers / 1 worker"
                result.append(Pair(SCALING, title, c.key, one.key, first_only=True))
        return result


def _steps(chain: Sequence[Contestant], where: str, asked: bool) -> list[Pair]:
    if len(chain) < 2:
        return []

    def pair(kind: str, a: Contestant, b: Contestant) -> Pair:
        title = f"{a.config} {plural(a.variant)} / {b.config} {plural(b.variant)}, x{a.workers}{where}"
        return Pair(kind, title, a.key, b.key, asked=asked)

    steps = [pair(STEP, after, before) for before, after in zip(chain, chain[1:])]  # noqa: B905
    return [pair(TOTAL, chain[-1], chain[0]), *steps]
