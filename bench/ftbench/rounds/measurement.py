"""One scenario of a run: its candidates, their numbers of workers and batch sizes, and its rounds."""

import contextlib
import functools
import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ftbench.data.sources import Sources
from ftbench.document import model
from ftbench.machine import disturbance
from ftbench.plan import sizing
from ftbench.plan.candidates import VARIANTS, Candidate, listed
from ftbench.plan.case import Case
from ftbench.plan.scenario import OWN, Scenario, Task
from ftbench.rounds.controller import Controller, failures
from ftbench.rounds.progress import Display
from ftbench.rounds.twins import Twins
from ftbench.rounds.work import PREFETCH_FACTOR, Work, warmup_batches
from ftbench.scenarios import own
from ftbench.stats import statistics
from ftbench.stats.waterfall import precise
from ftbench.trial.process import TrialFailed
from ftrun import host
from ftrun.configurations import TWIN
from ftrun.interruption import Interruption

# More workers than this for each CPU make sense only in scenarios that wait.
WORKERS_PER_CPU = 4
# Less than any process of a trial takes to start: it imports torch.
START_SECONDS = 1.0
# Fields of a scenario that are copied into its record.
COPIED = ("name", "group", "question", "description", "case_axis", "case_unit")


@dataclass
class Measurement:
    """The measurement of one scenario of a run. Used by the main thread only."""

    scenario: Scenario
    options: model.Options
    twins: Twins
    display: Display
    repeats: bool = True
    """True until it is known that loading the same samples twice gives different samples."""
    processes: bool = True
    """False if batches of the dataset cannot be sent from worker processes."""
    left: Callable[[], float] | None = None
    """Function that returns the seconds left of a budget that must not be exceeded; None if there is no such budget."""

    def __post_init__(self) -> None:
        self._configs = self.options.configs
        self._ranks = self.options.ranks or 1
        self._reached = 0
        """Number of samples that a trial of --dataset loads, from the first one on."""

    @property
    def _cpus(self) -> int:
        """The number of CPUs for each rank."""
        return max(1, self.twins.usable_cpus() // self._ranks)

    def _skip(self, what: str, why: str) -> None:
        self.display.skip(f"{self.scenario.name}: {what}", why)

    def rounds(
        self, sources: Sources, interruption: Interruption, share: Callable[[], float]
    ) -> Iterator[model.Scenario]:
        """Measure the scenario; yield its record after every round. Yield nothing if no candidate can be measured here.

        `share` returns the seconds for the rounds; it is called after the warm-up. Raises sizing.DoesNotFit, exceptions
        of Controller.rounds, and TrialFailed after the last round if some candidates could not be measured.
        """
        if self.scenario.name == OWN:
            minutes = own.LOOK.patience / 60
            self.display.note(f"loading some {self.scenario.description} (at most {minutes:.0f} minutes a twin)")
            self.look()
        scenario, options = self.scenario, self.options
        ranked = self.ranked()
        if not ranked:
            self.display.skip(scenario.name, "none of its candidates can be measured here")
            return
        work, fitting = self.work([c for _, c in ranked], sources)
        cases = {c.case for _, c in ranked}
        ranked, seed = work.gather([(rank, c) for rank, c in ranked if c in fitting]), secrets.randbits(32)
        # A quick run has three rounds, whatever number a full run has.
        fewest = max(statistics.FEWEST_ROUNDS, 0 if options.quick else scenario.repeats)
        limit = self._limit(fewest * sum(rank == 0 for rank, _ in ranked))
        controller = Controller(work, self.twins.endpoints, self.display, interruption, seed, fewest, limit)
        try:
            yield from self._rounds(controller, ranked, cases, share)
        except TrialFailed as error:
            if scenario.name != OWN:
                raise
            raise TrialFailed(f"{error}; {self._searched(controller.failed)}") from error

    def _rounds(
        self, controller: Controller, ranked: list[tuple[int, Candidate]], cases: set[str], share: Callable[[], float]
    ) -> Iterator[model.Scenario]:
        """Warm up, and measure rounds of the ranked candidates. The rest: see `rounds`."""
        scenario, options, work, fewest = self.scenario, self.options, controller.work, controller.fewest
        costs = controller.warm_up([c for _, c in ranked])
        seconds = share()
        deadline, everybody = time.monotonic() + seconds, options.rounds is not None
        ranked, dropped, trial_seconds = controller.plan(ranked, costs, seconds, self._cpus, everybody)
        self._keep_budget(fewest, len(ranked) * trial_seconds, seconds)
        fit = f"fit into {options.budget:.0f} s"
        if dropped:
            why = f"enough rounds with them would not {fit} (--budget gives more)"
            self._skip(listed(work.measured(dropped), cases), why)
        candidates = work.measured(c for _, c in ranked)
        entry = self._record(controller, candidates)
        enough, told = functools.partial(precise, entry, options.precision), set[Candidate]()
        for finished in controller.rounds(ranked, deadline, trial_seconds, options.rounds, enough):
            self._tell_of_differences(controller)
            measured = {trial.candidate for trial in finished.trials}
            for c, failure in controller.repeated.items():
                if c.key in measured and c not in told:
                    told.add(c)
                    why = f"{failures({c: failure})}; in round {finished.number} a second one took its place"
                    self.display.warn(f"{scenario.name}: {why}")
            entry.note = joined(controller.notes)
            entry.rounds.append(finished)
            if marks := disturbance.marks(finished.disturbance, finished.disturbance.before.affinity):
                self.display.note(f"disturbed: {scenario.name}, round {finished.number}: {', '.join(marks)}")
            late = [c for c in candidates if c.key not in measured and c not in work.measured(controller.failed)]
            if late:
                self._skip(listed(late, cases), f"given up in round {finished.number}: not all would {fit}")
            # Only candidates that were in every round are compared.
            candidates = [c for c in candidates if c.key in measured]
            entry.pairs = scenario.plan.pairs(candidates)
            entry.failures = [controller.failed[c] for c in entry.candidates if c in controller.failed]
            yield entry
        self._tell_of_few_rounds(len(entry.rounds), fewest)
        if controller.failed:
            # The measurements of the other candidates are valid.
            raise TrialFailed(failures(controller.failed))

    def _limit(self, processes: int) -> float:
        """Return the time (time.monotonic()) at which --budget is over; infinity if the budget may be exceeded.

        Raises BudgetTooShort if fewer than `processes` processes, each with its ranks, could be started by then.
        """
        if not self.left:
            return math.inf
        # The ranks start after torchrun has imported torch, and share the CPUs.
        waves = 1 + math.ceil(self._ranks / self.twins.usable_cpus()) if self._ranks > 1 else 1
        if (left := self.left()) < (least := processes * waves * START_SECONDS):
            ranks = f", each with {self._ranks} ranks" if self._ranks > 1 else ""
            raise sizing.BudgetTooShort(
                f"--budget {self.options.budget:g} is too short for the {processes} processes that a verdict needs"
                f"{ranks}: they need {math.ceil(self.options.budget - left + least)} s at the very least. Give more "
                f"({self.scenario.share(self.options.quick):.0f} is usual), or a number of --rounds"
            )
        return time.monotonic() + left

    def _keep_budget(self, rounds: int, seconds: float, share: float) -> None:
        """Raise BudgetTooShort if `rounds` rounds of `seconds` each would take longer than the rest of the budget.

        Without a budget that must not be exceeded (`left`), only print a note if the rounds are expected to take much
        longer than `share` (s).
        """
        over = rounds * seconds - share
        if not self.left and self.options.rounds is None and over > 0.2 * self.scenario.share(self.options.quick):
            why = f"as {rounds} rounds, the fewest for a verdict, need {rounds * seconds / 60:.0f} min here"
            self.display.note(f"{self.scenario.name} takes about {over / 60:.0f} min longer than listed, {why}")
        if self.left and rounds * seconds > (left := self.left()):
            raise sizing.BudgetTooShort(
                f"{rounds} rounds need about {rounds * seconds:.0f} s, and {max(0.0, left):.0f} s are left of "
                f"--budget {self.options.budget:g}: give more, or a number of --rounds"
            )

    def _tell_of_few_rounds(self, finished: int, fewest: int) -> None:
        if self.options.rounds is None and finished < fewest:
            few = f"{finished} of the {fewest} rounds that a verdict needs"
            self.display.warn(f"{self.scenario.name}: --budget {self.options.budget:g} is over after {few}: give more")

    def _record(self, controller: Controller, candidates: list[Candidate]) -> model.Scenario:
        """Return the scenario's record for results.json, still without rounds."""
        load, cases = controller.work.loads({c.case for c in candidates})
        main, *others = self.scenario.metrics
        return model.Scenario(
            **vars(load),
            **{name: getattr(self.scenario, name) for name in COPIED},
            note="",
            prefetch_factor=PREFETCH_FACTOR,
            ranks=self.options.ranks,
            seed=controller.seed,
            metrics=[main, *(["slowest_rank"] if self.options.ranks else []), *others],
            cases=cases,
            candidates=candidates,
            pairs=[],
            failures=[],
            rounds=[],
        )

    def _tell_of_differences(self, controller: Controller) -> None:
        if controller.differences and self.repeats:
            self.repeats = False  # warn once
            self.display.warn(
                f"not all candidates gave the same samples: {controller.differences[0].split('. ')[0]}. Either "
                "the dataset draws random numbers, or it is not safe under threads: "
                f"{host.audit(self.scenario.case('').parameters['target'])} tells"
            )

    def look(self) -> None:
        """Time some user-supplied samples in every twin, to set the amount of work in a turn. Raises TrialFailed."""
        target = self.scenario.case("").parameters["target"]
        found = self._looks(self._of_samples(own.LOOK, own.LOOKED_AT))
        self.repeats = all(each["repeats"] for each in found)
        if not self.repeats:
            self.display.warn(
                f"{target} gives another sample for the same index each time (random augmentation?), so it cannot be "
                f"checked that all candidates load the same; {host.audit(target)} looks for races"
            )
        unsendable = next((each["unsendable"] for each in found if each["unsendable"]), "")
        self.processes = not unsendable
        if unsendable:
            self._skip("worker processes", f"a batch of {target} cannot be sent from a worker process: {unsendable}")
        seconds, opening, size = (max(each[name] for each in found) for name in ("seconds", "opening", "sample_bytes"))
        amount = own.amount(seconds, self.options.batch_size)
        # The most that a trial does before it waits: it opens the dataset, warms up and has a turn.
        workers = max(self.options.workers or self.scenario.workers(self._cpus))
        turn = amount.batch_size * amount.batches_per_worker * workers * self._ranks
        length = min(each["length"] for each in found)
        if length < turn:
            self.display.warn(
                f"{target} has {length} of the {turn} samples that a turn loads: the same ones are loaded again, and "
                "files among them come from memory"
            )
        samples = amount.batch_size * (2 * warmup_batches(workers) + (amount.batches_per_worker + 1) * workers)
        patience = own.PATIENCE + own.PATIENCE_TIMES * (opening + samples * seconds) * self._ranks
        self._reached = min(length, samples * self._ranks)
        description = f"{self.scenario.description}, which has {length}"
        self.scenario = replace(
            self.scenario, description=description, sample_bytes=size, full=amount, quick=amount, patience=patience
        )

    def _looks(self, task: Task) -> list[dict]:
        """Return the results of own.look in the twins that can load the dataset; raises TrialFailed if no twin can."""
        found, failed = [], {twin: TrialFailed(why) for twin, why in self.twins.lacking.items()}
        for twin in sorted(self.twins.endpoints.keys() - failed.keys()):
            try:
                found.append(self._step_by_step(task, twin)["look"])
            except TrialFailed as error:
                failed[twin] = error
        # The same failure in two twins differs in the paths of its traceback: show one.
        once = {failure.why: str(failure) for failure in failed.values()}.values()
        if not found:
            raise TrialFailed("\n".join(once))
        for text in once:
            if "\n" in text:  # the output, which `_skip` does not show
                self.display.note(text)
        for twin, failure in failed.items():
            self._skip(f"the {twin} twin", failure.why)
        self._configs = [config for config in self._configs if TWIN[config] not in failed]
        return found

    def _of_samples(self, scenario: Scenario, samples: int) -> Task:
        """Return the task of *scenario* (own.LOOK, own.SEARCH): the first *samples* of --dataset, without workers."""
        parameters = self.scenario.case("").parameters
        return Task(scenario, [], "serial", 0, samples, 2, 1, PREFETCH_FACTOR, "", parameters)

    def _step_by_step(self, task: Task, twin: str) -> dict:
        """Return the result of a trial of --dataset; raises TrialFailed, which names the sample."""
        steps = 0  # a process that hangs or ends at once cannot say where
        try:
            with contextlib.closing(self.twins.endpoints[twin].start(replace(task, config=twin).request())) as trial:
                while (result := trial.go_on()) is None:
                    steps += 1
        except TrialFailed as error:
            raise TrialFailed(own.located(task, steps, str(error)), error.hung) from error
        return result

    def _searched(self, failed: Iterable[Candidate]) -> str:
        """Return which sample of --dataset fails without workers, after trials with workers have failed.

        A trial cannot tell: its process has ended at once or hangs, or a worker process has.
        """
        task = self._of_samples(own.SEARCH, self._reached)
        self.display.note(f"looking for a sample that fails among the {self._reached} that trials load")
        try:
            self._step_by_step(task, TWIN[next(iter(failed)).config])
        except TrialFailed as error:
            return f"without workers, {error.why}"
        return f"without workers, all {self._reached} samples load"

    def ranked(self) -> list[tuple[int, Candidate]]:
        """Return (drop rank, candidate) for the candidates that the twins can measure; record the others as skipped."""
        lacking: dict[str, list[Candidate]] = {}
        ranked = self.scenario.plan.ranked(self._configs, self._workers(), self.options.quick)
        for _, c in ranked:
            lacking.setdefault(self.twins.lacks(TWIN[c.config], c.variant), []).append(c)
        able = [c for c in lacking.pop("", []) if self.processes or not VARIANTS[c.variant].processes]
        for why, candidates in lacking.items():
            self._skip(listed(candidates, {c.case for _, c in ranked}), why)
        return [(rank, c) for rank, c in ranked if c in able]

    def _workers(self) -> list[int]:
        """Return the numbers of workers: those of --workers, or the scenario's default."""
        usual = list(self.scenario.workers(self._cpus))
        if self.options.quick and (most := self.scenario.quick_workers):
            usual = [count for count in usual if count <= most]
        given = self.options.workers
        if given and max(given) > max(WORKERS_PER_CPU * self._cpus, *usual):
            workers, cpus = max(given) * self._ranks, self.twins.usable_cpus()
            self.display.warn(
                f"{self.scenario.name}: {workers} workers share {cpus} CPU{'s' if cpus != 1 else ''}: what is "
                "compared is how they get in each other's way (--workers asks for fewer)"
            )
        return given or usual

    def work(self, candidates: Sequence[Candidate], sources: Sources) -> tuple[Work, list[Candidate]]:
        """Return (Work of the trials, candidates that fit into memory); record the other candidates as skipped.

        Raises sizing.DoesNotFit if no candidate of the first case fits, since the first case is the most important.
        """
        result, found = Work(self.scenario, {}, {}, sizing.room(self.twins.memory()), ranks=self._ranks), []
        for case in self.scenario.plan.cases:
            result.paths[case.name], dataset = sources.get(case.source or self.scenario.source)
            everybody = [c for c in candidates if c.case == case.name]
            # Threads need no /dev/shm.
            threads = [c for c in everybody if not VARIANTS[c.variant].processes]
            problems: list[sizing.DoesNotFit] = []
            for group in filter(None, (everybody, threads)):
                try:
                    result.cases[case.name] = self._fit(case, group, dataset)
                except sizing.DoesNotFit as error:
                    problems.append(error)
                    continue
                found += group
                if problems:
                    where = f"{case.title}: " if case.name else ""
                    self._skip(f"{where}worker processes", str(problems[0]))
                break
            else:
                # Other cases may fit.
                if problems and case == self.scenario.plan.cases[0]:
                    raise problems[-1]
                if problems:
                    self._skip(case.title, str(problems[0]))
        return result, found

    def _fit(self, case: Case, candidates: Sequence[Candidate], dataset: model.Dataset) -> model.Load:
        """Return the Load of a case, with a batch size that fits into memory for all candidates; raises DoesNotFit."""
        scenario, options = self.scenario, self.options
        amount = scenario.amount(options.quick, case)
        requested = options.batch_size if options.batch_size and scenario.batched else amount.batch_size
        sample_bytes = case.sample_bytes or scenario.sample_bytes
        variants = [VARIANTS[c.variant] for c in candidates]
        batch_size, warnings = sizing.fit(
            requested,
            sample_bytes,
            max(c.workers for c in candidates),
            PREFETCH_FACTOR,
            any(v.processes for v in variants),
            self.twins.memory(),
            max(v.queued_per_worker for v in variants),
            case.dataset_bytes,
            self._ranks,
        )
        where = [scenario.name] if len(options.scenarios) > 1 else []
        for warning in warnings:
            self.display.warn(": ".join([*where, *filter(None, [case.title]), warning]))
        return model.Load(
            sample_bytes=sample_bytes,
            dataset=dataset,
            batch_size=batch_size,
            batches_per_worker=amount.batches_per_worker,
            turns=amount.turns,
        )


def joined(notes: Iterable[str]) -> str:
    """Join the notes of trials with "; ", and leave out any note that is part of another note."""
    notes = [note for note in notes if note]
    return "; ".join(note for note in notes if not any(note != other and note in other for other in notes))
