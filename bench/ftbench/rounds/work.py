"""The work of a scenario's trials, and the groups of trials that are alive at the same time."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ftbench.document.model import Load, MeasuredCase
from ftbench.plan import sizing
from ftbench.plan.candidates import VARIANTS, Candidate, Ranking
from ftbench.plan.scenario import Scenario, Task

PREFETCH_FACTOR = 2


@dataclass
class Work:
    """Work of a scenario's trials. The keys of `cases` and `paths` are names of cases ("" if the
    scenario has none).
    """

    scenario: Scenario
    cases: dict[str, Load]
    paths: dict[str, list[str]]
    """Files of each case's dataset."""
    room: sizing.Demand | None = None
    """The memory for trials that are alive at the same time; None for no limit."""
    inside: dict[Candidate, list[Candidate]] = field(default_factory=dict)
    """The other cases' candidates that a candidate's trial measures (Scenario.inside)."""
    ranks: int = 1
    """Ranks of each trial (Task.ranks)."""

    def gather(self, ranked: Ranking) -> Ranking:
        """Return one candidate for each trial.

        If a trial measures several cases, it measures a candidate of each. The first candidate
        stands for the trial, and the others are added to `inside`.
        """
        first_of: dict[Candidate, tuple[int, Candidate]] = {}
        for rank, c in ranked:
            alike = c
            if self.scenario.inside:
                alike = replace(c, case="")
            _, first = first_of.setdefault(alike, (rank, c))
            if first != c:
                self.inside.setdefault(first, []).append(c)
        return Ranking(first_of.values())

    def measured(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """Return these candidates, each followed
        by the other candidates that its trial measures.
        """
        measured = []
        for candidate in candidates:
            measured += [candidate, *self.inside.get(candidate, ())]
        return measured

    def turns(self, candidate: Candidate) -> int:
        """Return the number of turns of the candidate's trial."""
        return self.cases[candidate.case].turns

    def demand(self, candidate: Candidate) -> sizing.Demand:
        """Return the memory and /dev/shm that the candidate's trial needs,
        in the largest of the trial's cases.
        """
        if inside := self.inside.get(candidate):
            largest = sizing.Demand(0, 0)
            for c in (candidate, *inside):
                largest = largest.or_more(replace(self, inside={}).demand(c))
            return largest
        load = self.cases[candidate.case]
        variant = VARIANTS[candidate.variant]
        return sizing.demand(
            load.batch_size * load.sample_bytes,
            candidate.workers,
            PREFETCH_FACTOR,
            variant.processes,
            variant.queued_per_worker,
            self.scenario.case(candidate.case).dataset_bytes,
            self.ranks,
        )

    def groups(self, candidates: Sequence[Candidate]) -> list[list[Candidate]]:
        """Split candidates, ordered by case, into groups that fit into memory. The trials of a
        group take turns.
        """
        single: list[list[Candidate]] = []
        several: dict[str, list[Candidate]] = {case: [] for case in self.cases}
        for candidate in candidates:
            if self.turns(candidate) == 1:
                single.append([candidate])  # a group by itself
            else:
                several[candidate.case].append(candidate)
        ordered = itertools.chain.from_iterable(several.values())
        return single + sizing.together(ordered, self.demand, self.room)

    @property
    def takes_turns(self) -> bool:
        """True if trials of any case measure in several turns, alternating with other trials."""
        return any(load.turns > 1 for load in self.cases.values())

    def with_turns(self, turns: int) -> "Work":
        """Return a copy in which trials have this number of turns,
        except those that have a single turn.
        """
        cases = dict(self.cases)
        for name, load in self.cases.items():
            if load.turns > 1:
                cases[name] = replace(load, turns=turns)
        return replace(self, cases=cases)

    def task(self, candidate: Candidate) -> Task:
        """Return the Task of a candidate: what its trial has to load, how, and how many turns."""
        # Batches per worker, not per candidate: a trial then takes about as long with one worker
        # as with many, and no worker is left without a batch at the end.
        load = self.cases[candidate.case]
        share = max(1, candidate.workers)  # without workers the consumer does one worker's work
        return Task(
            self.scenario,
            self.paths[candidate.case],
            candidate.variant,
            candidate.workers,
            load.batch_size,
            warmup_batches(candidate.workers),
            load.batches_per_worker * share,
            PREFETCH_FACTOR,
            candidate.case,
            self.scenario.case(candidate.case).parameters,
            load.turns,
            candidate.config,
            [self.task(inner).request() for inner in self.inside.get(candidate, ())],
            self.ranks,
        )

    def loads(self, cases: set[str]) -> tuple[Load, list[MeasuredCase]]:
        """Return (the Load of the scenario's first case in *cases*,
        a MeasuredCase for each case), for results.json.
        """
        loads, measured = [], []
        for name, load in self.cases.items():
            if name not in cases:
                continue
            loads.append(load)
            if name:  # a case without a name is no case of its own
                c = self.scenario.case(name)
                parameters = dict(c.parameters)
                measured.append(
                    MeasuredCase(
                        name=name, title=c.title, parameters=parameters, value=c.value, load=load
                    )
                )
        return loads[0], measured


def warmup_batches(workers: int) -> int:
    """Return the number of batches that a trial loads to warm up:
    as many as its loader keeps in memory.
    """
    # After them, a loader reuses the memory of earlier batches,
    # as it does for most of a long epoch.
    return sizing.batches_under_way(PREFETCH_FACTOR, workers)
