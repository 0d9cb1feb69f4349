"""The main job's contest: loader threads and processes in every configuration and number of workers."""

from __future__ import annotations

from collections.abc import Iterable

from bench.contestants import CONFIGS, Contestant, Pair, plural

# What people use today, and what removing the GIL makes possible.
VARIANTS = ("loader-thread", "loader-process")
BASELINE = ("gil", "loader-process")
CHALLENGER = ("ft", "loader-thread")


class Grid:
    """All combinations of configuration, threads or processes, and number of workers."""

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
        """(rank, contestant), as bench.contestants.Contest says.

        The A/A duplicates are those of the headline pair; of one configuration alone, those of it.
        """
        configs, workers = list(configs), sorted(set(workers))
        most = workers[-1]
        headline = {BASELINE, CHALLENGER} if {"gil", "ft"} <= set(configs) else {
            (configs[0], "loader-process"), (configs[-1], "loader-thread")}
        result = []
        for config in configs:
            for variant in VARIANTS:
                for count in workers:
                    is_headline = (config, variant) in headline
                    if count == most:
                        # The headline and the GIL's effect stay whatever happens: all three configurations.
                        rank = (0 if is_headline or (config, variant) == ("ft-gil", "loader-thread") else
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
                    result.append((rank, Contestant(config, variant, count)))
        result += [(0, Contestant(config, variant, most, duplicate=True)) for config, variant in sorted(headline)]
        return result

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """Every comparison that the contestants allow, the headline first."""
        keys = {c.key: c for c in contestants if not c.duplicate}
        counts = sorted({c.workers for c in keys.values()}, reverse=True)
        wanted = []
        for n in counts:
            wanted.append(("headline", f"ft threads / gil processes, x{n}: "
                           "threads without the GIL against what people use today",
                           f"ft/loader-thread/{n}", f"gil/loader-process/{n}"))
        for n in counts:
            wanted.append(("gil", f"ft threads / ft-gil threads, x{n}: effect of the GIL",
                           f"ft/loader-thread/{n}", f"ft-gil/loader-thread/{n}"))
        for n in counts:
            wanted.append(("build", f"ft-gil threads / gil threads, x{n}: cost of the free-threaded build",
                           f"ft-gil/loader-thread/{n}", f"gil/loader-thread/{n}"))
        for config in CONFIGS:
            for n in counts:
                wanted.append(("method", f"threads / processes in {config}, x{n}",
                               f"{config}/loader-thread/{n}", f"{config}/loader-process/{n}"))
        for config in CONFIGS:
            for variant in VARIANTS:
                for n in counts:
                    if n > 1:
                        wanted.append(("scaling", f"{config} {plural(variant)}: {n} workers / 1 worker",
                                       f"{config}/{variant}/{n}", f"{config}/{variant}/1"))
        # A single worker's start-up and memory say nothing about scaling.
        return [Pair(*each, metrics=("throughput",) if each[0] == "scaling" else None)
                for each in wanted if each[2] in keys and each[3] in keys]
