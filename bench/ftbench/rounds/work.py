"""What a scenario's trials have to do, and which of them are alive at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from ftbench.plan import sizing
from ftbench.plan.contestants import Contestant
from ftbench.plan.scenario import Scenario
from ftbench.plan.variants import VARIANTS

PREFETCH_FACTOR = 2


@dataclass(frozen=True)
class CaseWork:
    """What the trials of one case have to do."""

    paths: list[str]
    batch_size: int
    batches_per_worker: int
    turns: int = 1
    sample_bytes: int = 0
    dataset_bytes: int = 0
    requested_batch_size: int = 0
    """Before it was made smaller to fit into memory."""
    dataset: dict = field(default_factory=dict)
    """What the samples are read from, as results.json has it."""

    def document(self) -> dict:
        """The same as results.json has it."""
        return {name: value for name, value in asdict(self).items() if name not in ("paths", "dataset_bytes")}


@dataclass
class Work:
    """What a scenario's trials have to do, by the names of its cases ("" if it has none)."""

    scenario: Scenario
    cases: dict[str, CaseWork]
    room: sizing.Demand | None = None
    """What the trials that are alive at the same time may use; None for as much as they want."""

    def demand(self, contestant: Contestant) -> sizing.Demand:
        """What the contestant's trial needs."""
        work, variant = self.cases[contestant.case], VARIANTS[contestant.variant]
        need = sizing.demand(
            work.batch_size * work.sample_bytes,
            contestant.workers,
            PREFETCH_FACTOR,
            variant.queued_per_worker,
            work.dataset_bytes,
        )
        return need if variant.processes else sizing.Demand(need.memory, 0)

    def heats(self, contestants: Sequence[Contestant]) -> list[list[Contestant]]:
        """The contestants in groups whose trials are alive at the same time and take turns.

        As many as memory has room for, those of a case with each other; a trial with one turn has no need of others.
        """
        single = [[c] for c in contestants if self.cases[c.case].turns == 1]
        several = [c for case, work in self.cases.items() if work.turns > 1 for c in contestants if c.case == case]
        return single + sizing.together(several, self.demand, self.room)

    @property
    def takes_turns(self) -> bool:
        """Whether trials measure several times, in turn with others."""
        return any(work.turns > 1 for work in self.cases.values())

    def with_turns(self, turns: int) -> Work:
        """The same work with so many turns a trial, wherever there is more than one."""
        cases = {name: replace(work, turns=turns) if work.turns > 1 else work for name, work in self.cases.items()}
        return replace(self, cases=cases)

    def request(self, contestant: Contestant) -> dict:
        """The trial's request (ftbench.trial.child)."""
        # Batches per worker, not per contestant: a trial then takes about as long with one worker
        # as with many, and no worker is left without a batch at the end.
        work = self.cases[contestant.case]
        share = max(1, contestant.workers)  # without workers the consumer does one worker's work
        return {
            "scenario": self.scenario.name,
            "case": contestant.case,
            "parameters": dict(self.scenario.case(contestant.case).parameters),
            "paths": work.paths,
            "config": contestant.config,
            "variant": contestant.variant,
            "workers": contestant.workers,
            "batch_size": work.batch_size,
            "warmup_batches": warmup_batches(contestant.workers),
            "batches": work.batches_per_worker * share,
            "prefetch_factor": PREFETCH_FACTOR,
            "turns": work.turns,
            "patience": self.scenario.patience,
        }

    def document(self, cases: set[str]) -> dict:
        """The same of these cases, as results.json has it; beside a scenario's cases stands what its first one does."""
        found = {name: work for name, work in self.cases.items() if name in cases}
        # The first case alone is as good as none if it has no name.
        about = [self.scenario.case(name) for name in found] if any(found) else []
        return {
            **next(iter(found.values())).document(),
            "cases": [
                {
                    "name": case.name,
                    "title": case.title,
                    "parameters": dict(case.parameters),
                    "value": case.value,
                    **found[case.name].document(),
                }
                for case in about
            ],
        }


def warmup_batches(workers: int) -> int:
    """The batches that a trial loads before it takes the time.

    As many as a loader has under way, one that the consumer holds and the one that it gets next: from then on
    whoever recycles the memory of batches does so, and nobody is measured touching new memory for the first time.
    An epoch has hundreds of batches; with fewer before them, the first of it would be most of what is measured.
    """
    return PREFETCH_FACTOR * workers + 2
