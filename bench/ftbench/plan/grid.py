"""The main job's contest: threads and processes in every configuration, number of workers and case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ftbench.plan.contestants import CONFIGS, Contestant, Pair, plural
from ftbench.plan.scenario import Case

WITHOUT_CASES = (Case("", ""),)


@dataclass(frozen=True)
class Grid:
    """All combinations of configuration, threads or processes, number of workers, and case."""

    cases: tuple[Case, ...] = ()
    """The scenario's; the first one is the most important."""
    threads: str = "loader-thread"
    """The variants that are compared, in every configuration."""
    processes: str = "loader-process"

    @property
    def variants(self) -> tuple[str, str]:
        """Both variants."""
        return self.threads, self.processes

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
        """(rank, contestant), as ftbench.plan.contestants.Contest says."""
        configs, workers = list(configs), sorted(set(workers))
        most = workers[-1]
        # What people use today, and what removing the GIL makes possible.
        headline = (
            {("gil", self.processes), ("ft", self.threads)}
            if {"gil", "ft"} <= set(configs)
            else {(configs[0], self.processes), (configs[-1], self.threads)}
        )
        cases = [case.name for case in self.cases or WITHOUT_CASES]
        result = []
        for case in cases:
            # Of the other cases the headline goes as late as the first one's threads and processes.
            later = int(case != cases[0])
            for config in configs:
                for variant in self.variants:
                    for count in workers:
                        is_headline = (config, variant) in headline
                        if count == most:
                            # The headline and the GIL's effect stay whatever happens: all three configurations.
                            rank = (
                                0
                                if is_headline or (config, variant) == ("ft-gil", self.threads)
                                else 2
                                if config == "ft-gil"
                                else 1
                            )
                        elif count == workers[0]:
                            if quick and not is_headline:
                                continue
                            rank = 3
                        else:
                            # The curve's middle; what is nearest to the ends says least.
                            if quick:
                                continue
                            rank = 4 + len(workers) - workers.index(count)
                        result.append((rank + later, Contestant(config, variant, count, case=case)))
        return result

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """Every comparison that the contestants allow, the headline first, always within a case."""
        keys = {c.key: c for c in contestants}
        counts = sorted({c.workers for c in keys.values()}, reverse=True)
        at = [
            (f"@{case.name}" if case.name else "", f", {case.title}" if case.name else "")
            for case in self.cases or WITHOUT_CASES
        ]
        threads, processes = self.variants
        places = [(n, key, title) for n in counts for key, title in at]
        wanted = []
        for n, case, of in places:
            wanted.append(
                (
                    "headline",
                    f"ft threads / gil processes, x{n}{of}: threads without the GIL against processes with it",
                    f"ft/{threads}/{n}{case}",
                    f"gil/{processes}/{n}{case}",
                )
            )
        for n, case, of in places:
            wanted.append(
                (
                    "gil",
                    f"ft threads / ft-gil threads, x{n}{of}: effect of the GIL",
                    f"ft/{threads}/{n}{case}",
                    f"ft-gil/{threads}/{n}{case}",
                )
            )
        for n, case, of in places:
            wanted.append(
                (
                    "build",
                    f"ft-gil threads / gil threads, x{n}{of}: cost of the free-threaded build",
                    f"ft-gil/{threads}/{n}{case}",
                    f"gil/{threads}/{n}{case}",
                )
            )
        for config in CONFIGS:
            for n, case, of in places:
                wanted.append(
                    (
                        "method",
                        f"threads / processes in {config}, x{n}{of}",
                        f"{config}/{threads}/{n}{case}",
                        f"{config}/{processes}/{n}{case}",
                    )
                )
        for config in CONFIGS:
            for variant in self.variants:
                for n, case, of in places:
                    if n > 1:
                        wanted.append(
                            (
                                "scaling",
                                f"{config} {plural(variant)}: {n} workers / 1 worker{of}",
                                f"{config}/{variant}/{n}{case}",
                                f"{config}/{variant}/1{case}",
                            )
                        )
        # A single worker's start-up and memory say nothing about scaling.
        return [Pair(*each, first_only=each[0] == "scaling") for each in wanted if each[2] in keys and each[3] in keys]
