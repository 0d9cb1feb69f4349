"""The work of a scenario's trials, and which of them are alive at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ftbench.document.model import Dataset, Load, MeasuredCase
from ftbench.plan import sizing
from ftbench.plan.candidates import VARIANTS, Candidate
from ftbench.plan.scenario import Scenario, Task

PREFETCH_FACTOR = 2


@dataclass(frozen=True)
class CaseWork:
    """Work of the trials of one case."""

    paths: list[str]
    batch_size: int
    batches_per_worker: int
    turns: int = 1
    sample_bytes: int = 0
    dataset_bytes: int = 0
    requested_batch_size: int = 0
    """Before it was made smaller to fit into memory."""
    dataset: Dataset | None = None
    """The source of the samples."""

    def load(self) -> dict[str, Any]:
        """Return the fields of ftbench.document.model.Load."""
        return {each.name: getattr(self, each.name) for each in fields(Load)}


@dataclass
class Work:
    """Work of a scenario's trials, by the names of its cases ("" if it has none)."""

    scenario: Scenario
    cases: dict[str, CaseWork]
    room: sizing.Demand | None = None
    """The memory for trials that are alive at the same time; None for no limit."""

    def demand(self, candidate: Candidate) -> sizing.Demand:
        """Return the memory that the candidate's trial needs."""
        work, variant = self.cases[candidate.case], VARIANTS[candidate.variant]
        need = sizing.demand(
            work.batch_size * work.sample_bytes,
            candidate.workers,
            PREFETCH_FACTOR,
            variant.queued_per_worker,
            work.dataset_bytes,
        )
        return need if variant.processes else sizing.Demand(need.memory, 0)

    def groups(self, candidates: Sequence[Candidate]) -> list[list[Candidate]]:
        """Return the candidates in groups whose trials are alive at the same time and take turns.

        A trial with one turn is a group by itself. The others form groups as large as memory allows, in order of cases.
        """
        single = [[c] for c in candidates if self.cases[c.case].turns == 1]
        several = [c for case, work in self.cases.items() if work.turns > 1 for c in candidates if c.case == case]
        return single + sizing.together(several, self.demand, self.room)

    @property
    def takes_turns(self) -> bool:
        """True if trials measure several times, in turn with others."""
        return any(work.turns > 1 for work in self.cases.values())

    def with_turns(self, turns: int) -> Work:
        """Return the same work with this number of turns a trial, where a trial has more than one."""
        cases = {name: replace(work, turns=turns) if work.turns > 1 else work for name, work in self.cases.items()}
        return replace(self, cases=cases)

    def task(self, candidate: Candidate) -> Task:
        """Return the task of a candidate's trial."""
        # Batches per worker, not per candidate: a trial then takes about as long with one worker
        # as with many, and no worker is left without a batch at the end.
        work = self.cases[candidate.case]
        share = max(1, candidate.workers)  # without workers the consumer does one worker's work
        return Task(
            self.scenario,
            work.paths,
            candidate.variant,
            candidate.workers,
            work.batch_size,
            warmup_batches(candidate.workers),
            work.batches_per_worker * share,
            PREFETCH_FACTOR,
            candidate.case,
            self.scenario.case(candidate.case).parameters,
            work.turns,
            candidate.config,
        )

    def loads(self, cases: set[str]) -> tuple[Load, list[MeasuredCase]]:
        """Return how much work a trial does, for results.json: of the first of these cases, and of each of them."""
        found = {name: work for name, work in self.cases.items() if name in cases}
        # The first case alone counts as none if it has no name.
        about = [self.scenario.case(name) for name in found] if any(found) else []
        return Load(**next(iter(found.values())).load()), [
            MeasuredCase(
                name=case.name,
                title=case.title,
                parameters=dict(case.parameters),
                value=case.value,
                **found[case.name].load(),
            )
            for case in about
        ]


def warmup_batches(workers: int) -> int:
    """Return the number of batches that a trial loads before the timed part: as many as are in memory at a time.

    From then on a loader that recycles the memory of batches does so. With fewer, the timed part would mostly show the
    first use of new memory, which is rare in an epoch of hundreds of batches.
    """
    return sizing.batches_under_way(PREFETCH_FACTOR, workers)
