"""One scenario of a run: its candidates, their numbers of workers and batch sizes,
and its rounds.
"""

import functools
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ftbench.data.sources import Sources
from ftbench.document import model
from ftbench.plan import shortest, sizing
from ftbench.plan.candidates import VARIANTS, Candidate, Ranking, listed, with_threads
from ftbench.plan.case import Case
from ftbench.plan.scenario import COMMAND, OWN, Scenario
from ftbench.plan.waterfall import COPIES
from ftbench.rounds.budget import Budget
from ftbench.rounds.controller import Controller, failures
from ftbench.rounds.first_runs import FirstRuns
from ftbench.rounds.look import FirstFacts, Looker
from ftbench.rounds.progress import Display
from ftbench.rounds.recorder import Recorder
from ftbench.rounds.twins import Twins, cpus_in_words
from ftbench.rounds.work import PREFETCH_FACTOR, Work
from ftbench.stats.waterfall import precise
from ftbench.trial.process import TrialFailed
from ftrun.configurations import TWIN
from ftrun.interruption import Interruption

# More workers than this for each CPU make sense only in scenarios that wait.
WORKERS_PER_CPU = 4
LOOKS: dict[str, type[Looker] | type[FirstRuns]] = {OWN: Looker, COMMAND: FirstRuns}
"""Makers of the first trials, by the name of the scenario that has them."""
# Fields of a scenario that are copied into its record.
COPIED = ("name", "group", "question", "description", "case_axis", "case_unit")


class Schedule(NamedTuple):
    """The candidates of a scenario's rounds, and the time for them."""

    ranked: Ranking
    """A candidate for each trial of a round."""
    trial_seconds: float
    """Expected time of a trial."""
    deadline: float
    """Time (time.monotonic()) after which no round begins if there are enough."""


def _cases(candidates: Iterable[Candidate]) -> set[str]:
    """Return the names of the cases of candidates."""
    return {candidate.case for candidate in candidates}


@dataclass
class Measurement:
    """The measurement of one scenario of a run. Used by the main thread only."""

    scenario: Scenario
    options: model.Options
    twins: Twins
    display: Display
    left: Callable[[], float] | None = None
    """Function that returns the seconds left of a budget that must not be exceeded; None if there
    is no such budget.
    """

    def __post_init__(self) -> None:
        self._ranks = self.options.ranks or 1
        self._facts: FirstFacts | None = None
        """Findings about a user-supplied dataset or command; None before `look`,
        and for all other scenarios.
        """

    @property
    def _cpus(self) -> int:
        """The number of CPUs for each rank."""
        return self.twins.cpus_of_rank(self._ranks)

    @property
    def _budget(self) -> Budget:
        return Budget(self.scenario, self.options, self.display, self.left)

    def _skip(self, part: str, why: str) -> None:
        self.display.skip(f"{self.scenario.name}: {part}", why)

    def look(self) -> None:
        """Make the first trials of what the user supplied (LOOKS), which set the amount of work in
        a turn. Raises TrialFailed and WorkDiffers.
        """
        if maker := LOOKS.get(self.scenario.name):
            first = maker(self.scenario, self.options, self.twins, self.display)
            self._facts = first.look()
            self.scenario = self._facts.scenario

    def rounds(
        self, sources: Sources, interruption: Interruption, share: Callable[[], float]
    ) -> Iterator[model.MeasuredScenario]:
        """Measure the scenario; yield its record after every round. Yield nothing if no candidate
        can be measured here.

        `share` returns the seconds for the rounds; it is called after the warm-up. Raises
        sizing.DoesNotFit, exceptions of Controller.rounds, and TrialFailed after the last round if
        some candidates could not be measured.
        """
        self.look()
        ranked = self.ranked()
        if not ranked:
            self.display.skip(self.scenario.name, "none of its candidates can be measured here")
            return
        cases = _cases(ranked.candidates)
        work, gathered = self._gathered(ranked, sources)
        controller = self._controller(work, gathered, interruption)
        try:
            yield from self._rounds(controller, gathered, cases, share)
        except TrialFailed as error:
            if self._facts is None or self.scenario.name != OWN:
                raise
            looker = Looker(self.scenario, self.options, self.twins, self.display)
            raise TrialFailed(
                f"{error}; {looker.search(controller.failed, self._facts.reached)}"
            ) from error

    def _gathered(self, ranked: Ranking, sources: Sources) -> tuple[Work, Ranking]:
        """Return the Work of the trials, and the ranked candidates that fit into memory,
        one for each trial.
        """
        work, fitting = self.work(ranked.candidates, sources)
        return work, work.gather(ranked.among(fitting))

    def _controller(self, work: Work, ranked: Ranking, interruption: Interruption) -> Controller:
        """Return the runner of the trials; raises BudgetTooShort if the most important ones could
        not be started.
        """
        fewest = shortest.fewest_rounds(self.scenario, self.options.quick)
        essential = len(ranked.up_to(0))
        limit = self._budget.limit(fewest * essential, self.twins.usable_cpus())
        seed = secrets.randbits(32)
        return Controller(
            work, self.twins.endpoints, self.display, interruption, seed, fewest, limit
        )

    def _rounds(
        self, controller: Controller, ranked: Ranking, cases: set[str], share: Callable[[], float]
    ) -> Iterator[model.MeasuredScenario]:
        """Warm up, and measure rounds of the ranked candidates. The rest: see `rounds`."""
        schedule = self._schedule(controller, ranked, cases, share)
        candidates = controller.work.measured(schedule.ranked.candidates)
        record = self._record(controller, candidates)
        repeats = self._facts is None or self._facts.repeats
        recorder = Recorder(
            self.scenario, record, controller, self.display, cases, self.options.budget, repeats
        )
        enough = functools.partial(precise, record, self.options.precision)
        most = self.options.rounds
        for finished in controller.rounds(
            schedule.ranked, schedule.deadline, schedule.trial_seconds, most, enough
        ):
            recorder.add(finished)
            yield record
        self._budget.warn_of_few_rounds(len(record.rounds), controller.fewest)
        if controller.failed:
            # The measurements of the other candidates are valid.
            raise TrialFailed(failures(controller.failed))
        if self._facts and self._facts.failed:
            raise TrialFailed(self._facts.failed)

    def _schedule(
        self, controller: Controller, ranked: Ranking, cases: set[str], share: Callable[[], float]
    ) -> Schedule:
        """Warm up, then choose the candidates whose rounds fit into the time;
        record the others as skipped.
        """
        costs = controller.warm_up(ranked.candidates)
        seconds = share()
        deadline = time.monotonic() + seconds
        everybody = self.options.rounds is not None
        kept, dropped, trial_seconds = controller.plan(
            ranked, costs, seconds, self._cpus, everybody
        )
        self._budget.check(controller.fewest, len(kept) * trial_seconds, seconds)
        if dropped:
            fit = f"fit into {self.options.budget:.0f} s"
            why = f"enough rounds with them would not {fit} (--budget gives more)"
            self._skip(listed(controller.work.measured(dropped), cases), why)
        return Schedule(kept, trial_seconds, deadline)

    def _record(
        self, controller: Controller, candidates: list[Candidate]
    ) -> model.MeasuredScenario:
        """Return the scenario's record for results.json, still without rounds."""
        load, cases = controller.work.loads(_cases(candidates))
        metrics = list(self.scenario.metrics)
        if self.options.ranks:
            metrics.insert(1, "slowest_rank")
        return model.MeasuredScenario(
            load=load,
            **{name: getattr(self.scenario, name) for name in COPIED},
            note="",
            prefetch_factor=PREFETCH_FACTOR,
            ranks=self.options.ranks,
            seed=controller.seed,
            metrics=metrics,
            cases=cases,
            candidates=candidates,
            pairs=[],
            failures=[],
            rounds=[],
        )

    def ranked(self) -> Ranking:
        """Return the candidates that the twins can measure; record the others as skipped."""
        configs, unsendable, uncopyable = self.options.configs, False, False
        if self._facts:
            configs = self._facts.configs
            unsendable = not self._facts.processes
            uncopyable = not self._facts.copies
        lacking: dict[str, list[Candidate]] = {}
        ranked = self.scenario.plan.ranked(configs, self._workers(), self.options.quick)
        for c in ranked.candidates:
            lacking.setdefault(self.twins.lacks(TWIN[c.config], c.variant), []).append(c)
        able = lacking.pop("", [])
        if unsendable:
            able = with_threads(able)
        if uncopyable:
            able = [c for c in able if c.variant != COPIES]
        for why, candidates in lacking.items():
            self._skip(listed(candidates, _cases(ranked.candidates)), why)
        return ranked.among(able)

    def _workers(self) -> list[int]:
        """Return the numbers of workers: those of --workers, or the scenario's default."""
        usual = list(self.scenario.workers(self._cpus))
        if self.options.quick and (most := self.scenario.quick_workers):
            usual = [count for count in usual if count <= most]
        requested = self.options.workers
        if requested and max(requested) > max(WORKERS_PER_CPU * self._cpus, *usual):
            workers = max(requested) * self._ranks
            cpus = cpus_in_words(self.twins.usable_cpus())
            self.display.warn(
                f"{self.scenario.name}: {workers} workers share {cpus}: what is compared is how "
                "they get in each other's way (--workers asks for fewer)"
            )
        return requested or usual

    def work(
        self, candidates: Sequence[Candidate], sources: Sources
    ) -> tuple[Work, list[Candidate]]:
        """Return (Work of the trials, candidates that fit into memory);
        record the other candidates as skipped.

        Raises sizing.DoesNotFit if no candidate of the first case fits,
        since the first case is the most important.
        """
        room = sizing.room(self.twins.memory())
        work = Work(self.scenario, {}, {}, room, ranks=self._ranks)
        fitting = []
        for case in self.scenario.plan.cases:
            work.paths[case.name], dataset = sources.get(case.source or self.scenario.source)
            of_case = [c for c in candidates if c.case == case.name]
            fitting += self._add_case(work, case, of_case, dataset)
        return work, fitting

    def _add_case(
        self, work: Work, case: Case, candidates: list[Candidate], dataset: model.Dataset
    ) -> list[Candidate]:
        """Add the Load of a case to *work*. Return those of its candidates that fit: all, the
        threads, or none.
        """
        problems: list[sizing.DoesNotFit] = []
        # Threads need no /dev/shm.
        for group in filter(None, (candidates, with_threads(candidates))):
            try:
                work.cases[case.name] = self._fit(case, group, dataset)
            except sizing.DoesNotFit as error:
                problems.append(error)
                continue
            if problems:
                part = ": ".join(filter(None, (case.name and case.title, "worker processes")))
                self._skip(part, str(problems[0]))
            return group
        if problems and case == self.scenario.plan.cases[0]:
            raise problems[-1]
        if problems:  # other cases may fit
            self._skip(case.title, str(problems[0]))
        return []

    def _fit(
        self, case: Case, candidates: Sequence[Candidate], dataset: model.Dataset
    ) -> model.Load:
        """Return the Load of a case, with a batch size that fits into memory
        for all candidates; raises DoesNotFit.
        """
        scenario, options = self.scenario, self.options
        amount = scenario.amount(options.quick, case)
        requested = amount.batch_size
        if options.batch_size and scenario.batched:
            requested = options.batch_size
        sample_bytes = case.sample_bytes or scenario.sample_bytes
        workers, queued, processes = 0, 0, False
        for c in candidates:
            variant = VARIANTS[c.variant]
            workers = max(workers, c.workers)
            queued = max(queued, variant.queued_per_worker)
            processes = processes or variant.processes

        def need(batch_size: int) -> sizing.Demand:
            batch_bytes = batch_size * sample_bytes
            return sizing.demand(
                batch_bytes,
                workers,
                PREFETCH_FACTOR,
                processes,
                queued,
                case.dataset_bytes,
                self._ranks,
            )

        batch_size, warnings = sizing.fit(
            requested, need, self._ranks * workers, self.twins.memory()
        )
        where = [case.title]
        if len(options.scenarios) > 1:
            where.insert(0, scenario.name)
        for warning in warnings:
            self.display.warn(": ".join(filter(None, [*where, warning])))
        return model.Load(
            sample_bytes=sample_bytes,
            dataset=dataset,
            batch_size=batch_size,
            batches_per_worker=amount.batches_per_worker,
            turns=amount.turns,
        )
