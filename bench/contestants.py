"""Who is measured, and which of them are compared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

CONFIGS = ("gil", "ft-gil", "ft")
CONFIG_TITLES = {
    "gil": "GIL build",
    "ft-gil": "free-threaded build with GIL on",
    "ft": "free-threaded build",
}
METHODS = ("thread", "process")
# What people use today, and what removing the GIL makes possible.
BASELINE = ("gil", "process")
CHALLENGER = ("ft", "thread")


@dataclass(frozen=True)
class Contestant:
    """One configuration, worker method and number of workers.

    A duplicate is measured like the contestant it repeats and only serves to find out how
    far two measurements of the same thing lie apart.
    """

    config: str
    method: str
    workers: int
    duplicate: bool = False

    @property
    def key(self) -> str:
        """Its name in results: "ft/thread/2", with "/again" for a duplicate."""
        return f"{self.config}/{self.method}/{self.workers}" + ("/again" if self.duplicate else "")

    @property
    def title(self) -> str:
        """Its name for people: "ft threads x2"."""
        return f"{self.config} {plural(self.method)} x{self.workers}" + (" again" if self.duplicate else "")


@dataclass(frozen=True)
class Pair:
    """Two contestants whose ratio is of interest: numerator over denominator, by key."""

    kind: str
    title: str
    numerator: str
    denominator: str


def plural(method: str) -> str:
    """ "threads" or "processes"."""
    return {"thread": "threads", "process": "processes"}[method]


def worker_counts(cpus: int) -> list[int]:
    """1, 2, 4, ... up to the number of CPUs, that number included."""
    counts = [1 << n for n in range(cpus.bit_length()) if 1 << n <= cpus]
    return counts if counts[-1] == cpus else [*counts, cpus]


def candidates(configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
    """(rank, contestant): the lower the rank, the later it is given up for lack of time.

    The A/A duplicates are those of the headline pair; of one configuration alone, those of it.
    """
    configs, workers = list(configs), sorted(set(workers))
    most = workers[-1]
    headline = {BASELINE, CHALLENGER} if {"gil", "ft"} <= set(configs) else {
        (configs[0], "process"), (configs[-1], "thread")}
    result = []
    for config in configs:
        for method in METHODS:
            for count in workers:
                is_headline = (config, method) in headline
                if count == most:
                    # The headline and the GIL's effect stay whatever happens: all three configurations.
                    rank = (0 if is_headline or (config, method) == ("ft-gil", "thread") else
                            2 if config == "ft-gil" else 1)
                elif count == workers[0]:
                    if quick and not is_headline:
                        continue
                    rank = 3
                else:
                    # The curve's middle; what is nearest to the ends says least.
                    if quick:
                        continue
                    rank = 4 + len(workers) - workers.index(count)
                result.append((rank, Contestant(config, method, count)))
    result += [(0, Contestant(config, method, most, duplicate=True)) for config, method in sorted(headline)]
    return result


def reduce(ranked: list[tuple[int, Contestant]], most: int) -> tuple[list[Contestant], list[Contestant]]:
    """(kept, given up): whole ranks are given up, highest first, until at most `most` are left.

    Rank 0 always stays.
    """
    limit = max(rank for rank, _ in ranked)
    while limit > 0 and sum(rank <= limit for rank, _ in ranked) > most:
        limit -= 1
    return ([c for rank, c in ranked if rank <= limit], [c for rank, c in ranked if rank > limit])


def duplicates(contestants: Iterable[Contestant]) -> list[Pair]:
    """The A/A pairs."""
    return [
        Pair("noise", f"{c.title} against itself", c.key, c.key.removesuffix("/again"))
        for c in contestants if c.duplicate
    ]


def pairs(contestants: Iterable[Contestant]) -> list[Pair]:
    """Every comparison that the contestants allow, the headline first."""
    keys = {c.key: c for c in contestants if not c.duplicate}
    counts = sorted({c.workers for c in keys.values()}, reverse=True)
    wanted = []
    for n in counts:
        wanted.append(("headline", f"ft threads / gil processes, x{n}: "
                       "threads without the GIL against what people use today",
                       f"ft/thread/{n}", f"gil/process/{n}"))
    for n in counts:
        wanted.append(("gil", f"ft threads / ft-gil threads, x{n}: effect of the GIL",
                       f"ft/thread/{n}", f"ft-gil/thread/{n}"))
    for n in counts:
        wanted.append(("build", f"ft-gil threads / gil threads, x{n}: cost of the free-threaded build",
                       f"ft-gil/thread/{n}", f"gil/thread/{n}"))
    for config in CONFIGS:
        for n in counts:
            wanted.append(("method", f"threads / processes in {config}, x{n}",
                           f"{config}/thread/{n}", f"{config}/process/{n}"))
    for config in CONFIGS:
        for method in METHODS:
            for n in counts:
                if n > 1:
                    wanted.append(("scaling", f"{config} {plural(method)}: {n} workers / 1 worker",
                                   f"{config}/{method}/{n}", f"{config}/{method}/1"))
    return [Pair(*each) for each in wanted if each[2] in keys and each[3] in keys]
