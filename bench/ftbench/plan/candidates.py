"""The candidates of a run: combinations of configuration, variant, number of workers and case.

This module has only the names of variants and the packages that they need, since it is imported
before anything is built or installed. ftbench.measure.loaders has the loaders themselves and
imports their libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Set
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Annotated

from ftrun.configurations import CONFIGURATIONS

CONFIGS = tuple(CONFIGURATIONS)
SERIAL = "serial"
"""Name of the variant without workers: the training loop loads by itself."""


@dataclass(frozen=True)
class Variant:
    """One way to load a dataset with workers,
    such as this loader's threads or torch's processes.
    """

    name: str
    title: str
    """The workers, in the plural, for a sentence: "loader threads"."""
    packages: tuple[str, ...] = ()
    """Distributions that only this variant needs, by normalised name."""
    processes: bool = False
    """True if the workers are processes, which hand batches over in shared memory (/dev/shm)."""
    queued_per_worker: int = 0
    """Batches per worker that the loader may hold beyond the prefetch factor."""


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("loader-thread", "loader threads"),
        # DataLoader(copy_dataset=True).
        Variant("loader-copies", "loader threads with a copy each"),
        Variant("loader-process", "loader processes", processes=True),
        # The platform's default start method is fork.
        Variant("loader-spawn", "loader processes (spawn)", processes=True),
        Variant("loader-forkserver", "loader processes (forkserver)", processes=True),
        # Collates a batch after its last sample, as torch does.
        Variant("loader-stack", "loader threads that stack"),
        Variant("loader-decode", "loader threads with ftloader.decode"),
        Variant(SERIAL, "no workers"),
        Variant("torch-process", "torch DataLoader processes", processes=True),
        # The mapper and the prefetcher each hold two batches a worker.
        Variant("nodes-thread", "torchdata.nodes threads", ("torchdata",), queued_per_worker=2),
        # spdl-core's pipeline around the dataset.
        Variant("spdl", "spdl-core threads", ("spdl-core",), queued_per_worker=2),
        Variant(
            "spdl-samples", "spdl-core threads, a sample each", ("spdl-core",), queued_per_worker=2
        ),
        # The same pipeline; spdl.io decodes a batch.
        Variant("spdl-io", "spdl-io threads", ("spdl-core", "spdl-io"), queued_per_worker=2),
        Variant("loop", "loop threads without a loader"),
        # These load nothing (ftbench.scenarios.contention, and the user's command).
        Variant("bare-thread", "bare threads"),
        Variant("bare-process", "bare processes"),
        Variant("bare-command", "runs"),
    )
}


@dataclass(frozen=True)
class Candidate:
    """Combination that is measured: a configuration, a variant of loading,
    a number of workers and a case.
    """

    # ftbench.document.model makes the JSON schema of these fields, and of Pair's.
    config: Annotated[
        str,
        {"enum": [*CONFIGS]},
        "gil: GIL build; ft-gil: free-threaded build, its GIL forced on; ft: free-threaded build",
    ]
    variant: Annotated[str, "the loader (VARIANTS)"]
    workers: Annotated[int, {"minimum": 0}, "how many; 0 where the training loop loads by itself"]
    case: Annotated[str, "name of the scenario's case, empty if it has none"] = ""

    @property
    def key(self) -> str:
        """Name in results, CONFIG/VARIANT/WORKERS or CONFIG/VARIANT/WORKERS@CASE:
        "ft/loader-thread/2@4-MiB".
        """
        key = f"{self.config}/{self.variant}/{self.workers}"
        if self.case:
            key += f"@{self.case}"
        return key

    @property
    def title(self) -> str:
        """Name for people, from configuration, variant,
        workers and case: "ft loader threads x2 (4-MiB)".
        """
        title = f"{self.config} {plural(self.variant)}"
        if self.workers:
            title += f" x{self.workers}"
        if self.case:
            title += f" ({self.case})"
        return title


def listed(candidates: Iterable[Candidate], cases: Set[str]) -> str:
    """Name candidates in a sentence: "ft loader threads x2, x4; gil loader processes x4 (50-ms)".

    *cases*: names of all cases. They are not named where a candidate is among *candidates* with
    each of them.
    """
    of_case: dict[Candidate, list[str]] = {}
    for c in candidates:
        of_case.setdefault(replace(c, case=""), []).append(c.case)
    counts: dict[tuple[str, str], list[int]] = {}
    for c, cases_of in of_case.items():
        where = "" if cases <= {*cases_of} else _named(cases_of)
        counts.setdefault((replace(c, workers=0).title, where), []).append(c.workers)
    parts = []
    for (title, where), workers in counts.items():
        numbers = ",".join(f" x{count}" for count in sorted(filter(None, workers)))
        parts.append(f"{title}{numbers}{where}")
    return "; ".join(parts)


def _named(cases: list[str]) -> str:
    """Return the names of cases, in brackets; "" for the first case alone, which has no name."""
    return f" ({', '.join(case or 'first case' for case in cases)})" if any(cases) else ""


@dataclass(frozen=True)
class Pair:
    """Two candidates, named by their keys, whose ratio is computed: numerator over denominator."""

    kind: Annotated[
        str,
        {"pattern": "^[a-z-]+$"},
        "step and total: of a waterfall; headline: what the scenario's question asks; gil: with "
        "and without the GIL in the same build; build: the free-threaded build with its GIL on "
        "against the GIL build; method: threads against processes; scaling: N workers against 1; "
        "chosen: named by the scenario; others are its own",
    ]
    numerator: Annotated[str, "key of a candidate"]
    denominator: Annotated[str, "key of a candidate"]
    why: Annotated[str, "what the comparison is about, in a few words; or empty"] = ""
    first_only: Annotated[bool, "true if only the scenario's first metric is compared"] = False
    asked: Annotated[
        bool,
        "true if the run was made for it (in the first metric, and in CPU time for steps of a "
        "waterfall); all others are explored, and corrected for their number",
    ] = False


def plural(variant: str) -> str:
    """Return the name of a variant's workers, in the plural: "loader threads"."""
    return VARIANTS[variant].title


def with_threads(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates without worker processes."""
    return [candidate for candidate in candidates if not VARIANTS[candidate.variant].processes]


def worker_counts(cpus: int) -> list[int]:
    """Return the usual numbers of workers: powers of two up to `cpus`, and `cpus`, such as 1, 2, 4,
    6 for 6 CPUs.
    """
    counts, count = [], 1
    while count < cpus:
        counts.append(count)
        count *= 2
    return [*counts, cpus]


def by_key(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    """Return {key: candidate}."""
    return {candidate.key: candidate for candidate in candidates}


def in_order(configs: Iterable[str]) -> list[str]:
    """Return configurations in the order of CONFIGS."""
    return sorted(set(configs).intersection(CONFIGS), key=CONFIGS.index)


class Ranking(list[tuple[int, Candidate]]):
    """List of (drop rank, candidate): candidates of a higher drop rank are dropped earlier."""

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates in order."""
        return [candidate for _, candidate in self]

    def up_to(self, highest: int) -> Ranking:
        """Return the part with drop ranks up to *highest*."""
        return Ranking(pair for pair in self if pair[0] <= highest)

    def among(self, candidates: Container[Candidate]) -> Ranking:
        """Return the part with these candidates."""
        return Ranking(pair for pair in self if pair[1] in candidates)

    def without(self, candidates: Container[Candidate]) -> Ranking:
        """Return the part without these candidates."""
        return Ranking(pair for pair in self if pair[1] not in candidates)


def reduce(
    ranked: Ranking,
    most: float,
    cost: Callable[[Candidate], float] = lambda candidate: 1,
) -> tuple[list[Candidate], list[Candidate]]:
    """Drop candidates until the kept ones cost at most `most` in total; return (kept, dropped).

    All candidates of the highest drop rank are dropped together, then those of the next, and so on.
    Candidates of drop rank 0 are never dropped. Without `cost`, every candidate costs 1.
    """
    limit, _ = max(ranked, key=itemgetter(0))
    kept = ranked.up_to(limit)
    while limit > 0 and sum(map(cost, kept.candidates)) > most:
        limit -= 1
        kept = ranked.up_to(limit)
    return kept.candidates, ranked.without(kept.candidates).candidates
