"""Why threads can lose: what the free-threaded interpreter's workers share, operation by operation.

To see one kind by hand, copy its loop from ftbench.contention.KINDS and run it in one thread and in many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ftbench import contention
from ftbench.contestants import Contestant, Pair, plural, worker_counts
from ftbench.scenario import Amount, Case, Scenario, Task

CASES = tuple(Case(name, kind.title, {"kind": name}) for name, kind in contention.KINDS.items())
# What stays: no contention, and the most.
ENDS = ("private", "reference")


def dataset(task: Task) -> None:
    """Nothing is loaded."""


def workers(cpus: int) -> Iterable[int]:
    """One worker alone is part of every trial, so two and more."""
    return [count for count in worker_counts(cpus) if count > 1] or [1]


@dataclass(frozen=True)
class Kinds:
    """Threads against processes in every kind, and threads without the GIL against threads with it."""

    def candidates(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Contestant]]:
        """(rank, contestant), as ftbench.contestants.Contest says."""
        configs, workers = list(configs), sorted(set(workers))
        main = "ft" if "ft" in configs else configs[-1]
        ranked = []
        for case in CASES:
            for config in configs:
                for variant in ("bare-thread", "bare-process"):
                    # Processes contend for nothing with any interpreter: one's are enough.
                    if config != main and (variant == "bare-process" or (quick and config == "ft-gil")):
                        continue
                    for count in workers:
                        if quick and count != workers[-1]:
                            continue
                        rank = (0 if case.name in ENDS else 1) if config == main else 2
                        if count != workers[-1]:
                            # The curve's middle: fewer workers say less.
                            rank += 2 + len(workers) - workers.index(count)
                        ranked.append((rank, Contestant(config, variant, count, case=case.name)))
        return ranked

    def pairs(self, contestants: Iterable[Contestant]) -> list[Pair]:
        """Contention first, then what the GIL is to threads."""
        found = list(contestants)
        threads = [c for c in found if c.variant == "bare-thread"]
        wanted = [("method", c, replace(c, variant="bare-process")) for c in threads]
        wanted += [
            ("gil", c, replace(c, config=config)) for config in ("ft-gil", "gil") for c in threads if c.config == "ft"
        ]
        return [
            Pair(
                kind,
                f"{a.config} {plural(a.variant)} / {b.config} {plural(b.variant)}, x{a.workers} ({a.case})",
                a.key,
                b.key,
            )
            for kind, a, b in wanted
            if b in found
        ]


SCENARIO = Scenario(
    name="contention",
    group="",
    question="why can threads lose?",
    description="small operations on what threads share, by one worker and by many; processes share nothing",
    sample="one operation",
    sample_bytes=1,
    source="nothing",
    dataset=dataset,
    measure=contention.measure,
    metrics=("scaling", "operation_ns"),
    contest=Kinds(),
    cases=CASES,
    case_axis="operation",
    full=Amount(batch_size=100_000, batches_per_worker=10),
    quick=Amount(batch_size=100_000, batches_per_worker=3),
    seconds=600,
    quick_seconds=240,
    workers=workers,
    batched=False,
)
