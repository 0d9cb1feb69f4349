"""A contest of chosen contestants: their comparisons are written down one by one, with targets where there are any.

For scenarios in which not every combination says something; ftbench.plan.grid has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ftbench.plan.contestants import Contestant, Pair, Target, plural

# Who can be left out: what no target is about, first.
WITH_A_TARGET, WITHOUT = 1, 2


@dataclass(frozen=True)
class Entry:
    """A configuration and variant, with the most workers of the run, with one, or with a number of its own."""

    config: str
    variant: str
    one_worker: bool = False
    case: str = ""
    """The name of the case that it is measured under."""
    workers: int | None = None
    """For work whose workers are not the run's to choose; None for the most of the run."""

    def contestant(self, most: int) -> Contestant:
        """It as a contestant of a run whose most workers are `most`."""
        count = 1 if self.one_worker else self.workers or most
        return Contestant(self.config, self.variant, count, self.case)


@dataclass(frozen=True)
class Comparison:
    """Two entries, and what their ratio should be, if anything."""

    numerator: Entry
    denominator: Entry
    target: Target | None = None
    why: str = ""
    """What the comparison is about, in a few words."""


def at_least(value: float) -> Target:
    """The ratio should be at least this."""
    return Target("least", value)


def at_most(value: float) -> Target:
    """The ratio should be at most this."""
    return Target("most", value)


@dataclass(frozen=True)
class Chosen:
    """The entries of some comparisons.

    Only what the comparisons and `others` name is measured. With --quick, only what has a target, if
    anything has.
    """

    comparisons: tuple[Comparison, ...]
    others: tuple[Entry, ...] = ()
    """What is shown beside them, and compared with nothing."""

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
        """(rank, contestant), as ftbench.plan.contestants.Contest says."""
        configs, most = set(configs), max(workers)
        short = quick and any(comparison.target for comparison in self.comparisons)
        ranks = self._ranks(configs, WITH_A_TARGET if short else WITHOUT) or self._ranks(configs, WITHOUT)
        if not ranks:
            return []
        # With one worker in all, an entry with one and one with the most are the same contestant.
        found: dict[str, tuple[int, Contestant]] = {}
        lowest = min(ranks.values())
        for entry, rank in ranks.items():
            contestant = entry.contestant(most)
            found.setdefault(contestant.key, (0 if rank == lowest else rank, contestant))
        return list(found.values())

    def _ranks(self, configs: set[str], highest: int) -> dict[Entry, int]:
        """The entries of these configurations with their ranks, up to the highest."""
        ranks: dict[Entry, int] = {}
        for number, comparison in enumerate(self.comparisons):
            rank = 0 if number == 0 else WITH_A_TARGET if comparison.target else WITHOUT
            for entry in (comparison.numerator, comparison.denominator):
                if entry.config in configs and rank <= highest:
                    ranks[entry] = min(rank, ranks.get(entry, rank))
        for entry in self.others:
            if entry.config in configs and WITHOUT <= highest:
                ranks.setdefault(entry, WITHOUT)
        return ranks

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """The comparisons whose contestants are there and differ, in their own order."""
        contestants = list(contestants)
        if not contestants:
            return []
        keys = {c.key for c in contestants}
        entries = [*self.others, *(e for c in self.comparisons for e in (c.numerator, c.denominator))]
        # The run's most workers are those with which most entries are found; some may have been given up.
        most = max(
            sorted({c.workers for c in contestants}, reverse=True),
            key=lambda count: sum(entry.contestant(count).key in keys for entry in entries),
        )
        result = []
        for comparison in self.comparisons:
            a, b = comparison.numerator.contestant(most), comparison.denominator.contestant(most)
            if a.key == b.key or not {a.key, b.key} <= keys:
                continue
            if (a.workers, a.case) == (b.workers, b.case):
                title = f"{a.config} {plural(a.variant)} / {b.config} {plural(b.variant)}, x{a.workers}"
                title += f" ({a.case})" if a.case else ""
            else:
                title = f"{a.title} / {b.title}"
            if comparison.why:
                title += f": {comparison.why}"
            result.append(
                Pair("chosen", title, a.key, b.key, target=comparison.target, asked=comparison.target is not None)
            )
        return result
