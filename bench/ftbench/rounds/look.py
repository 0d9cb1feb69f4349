"""The look at a user-supplied dataset (--dataset): a first trial in every twin, and the search for
a failing sample.
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from ftbench.document import model
from ftbench.plan.candidates import Candidate, plural
from ftbench.plan.scenario import Scenario, Task
from ftbench.plan.waterfall import COPIES
from ftbench.rounds.progress import Display
from ftbench.rounds.twins import Twins
from ftbench.rounds.work import PREFETCH_FACTOR, warmup_batches
from ftbench.scenarios import own
from ftbench.trial.process import TrialFailed
from ftrun import host
from ftrun.configurations import TWIN


@dataclass(frozen=True)
class FirstFacts:
    """Findings of the first trials of a user-supplied dataset, or of a command. What applies to one
    of them alone has a default.
    """

    scenario: Scenario
    """The scenario, with amounts of work that suit the dataset or the command."""
    configs: list[str]
    """The configurations whose twins can load the dataset, or in which the command works."""
    repeats: bool = True
    """True if loading the same samples twice gave the same samples."""
    processes: bool = True
    """False if batches of the dataset cannot be sent from worker processes."""
    copies: bool = False
    """False if threads cannot have copies of the dataset, or there are none without the GIL."""
    reached: int = 0
    """Number of samples that a trial loads, from the first one on."""
    failed: str = ""
    """The configurations in which the command fails, with the reasons; "" if it works in all."""


@dataclass(frozen=True)
class Looker:
    """Maker of the first trials of a user-supplied dataset. Used by the main thread only."""

    scenario: Scenario
    options: model.Options
    twins: Twins
    display: Display

    @property
    def _target(self) -> str:
        return self.scenario.case("").parameters["target"]

    def look(self) -> FirstFacts:
        """Time some samples in every twin, to set the amount
        of work in a turn. Raises TrialFailed.
        """
        minutes = own.LOOK.patience / 60
        self.display.note(
            f"loading some {self.scenario.description} (at most {minutes:.0f} minutes a twin)"
        )
        configs, looks = self._looks(self._first_samples(own.LOOK, own.LOOKED_AT))
        repeats = all(map(itemgetter("repeats"), looks))
        if not repeats:
            self.display.warn(
                f"{self._target} gives another sample for the same index each time (random "
                "augmentation?), so it cannot be checked that all candidates load the same; "
                f"{host.audit(self._target)} looks for races"
            )
        unsendable = next(filter(None, map(itemgetter("unsendable"), looks)), "")
        if unsendable:
            why = f"a batch of {self._target} cannot be sent from a worker process: {unsendable}"
            self._skip("worker processes", why)
        scenario, reached = self._sized(looks)
        copies = "ft" in configs and self._can_be_copied()
        return FirstFacts(scenario, configs, repeats, not unsendable, copies, reached)

    @property
    def _most_workers(self) -> int:
        """The highest number of workers, of each rank."""
        if self.options.workers:
            return max(self.options.workers)
        return max(self.scenario.workers(self.twins.cpus_of_rank(self.options.ranks or 1)))

    def _can_be_copied(self) -> bool:
        """Return True if threads can have copies of the dataset; else record the reason.

        This takes a process of its own: a copy may need more memory than there is.
        """
        task = self._first_samples(own.COPY, 1)
        copies = self._most_workers * (self.options.ranks or 1)
        try:
            self._step_by_step(replace(task, workers=copies), TWIN["ft"])
        except TrialFailed as error:
            self._skip(plural(COPIES), error.why)
            return False
        return True

    def _sized(self, looks: list[dict]) -> tuple[Scenario, int]:
        """Return (the scenario with its amounts of work,
        the number of samples that a trial loads).
        """

        def largest(name: str) -> Any:
            return max(map(itemgetter(name), looks))

        seconds = largest("seconds")
        opening = largest("opening")
        ranks = self.options.ranks or 1
        amount = own.amount(seconds, self.options.batch_size)
        workers = self._most_workers
        turn = amount.batch_size * amount.batches_per_worker * workers * ranks
        length = min(map(itemgetter("length"), looks))
        if length < turn:
            self.display.warn(
                f"{self._target} has {length} of the {turn} samples that a turn loads: the same "
                "ones are loaded again, and files among them come from memory"
            )
        # The most that a trial does before it waits: it opens the dataset, warms up and has a turn.
        batches = 2 * warmup_batches(workers) + (amount.batches_per_worker + 1) * workers
        samples = amount.batch_size * batches
        scenario = replace(
            self.scenario,
            description=f"{self.scenario.description}, which has {length}",
            sample_bytes=largest("sample_bytes"),
            full=amount,
            quick=amount,
            patience=own.PATIENCE + own.PATIENCE_TIMES * (opening + samples * seconds) * ranks,
        )
        return scenario, min(length, samples * ranks)

    def _looks(self, task: Task) -> tuple[list[str], list[dict]]:
        """Return (configurations of the twins that can load the dataset, the result of own.look in
        each of them).

        Raises TrialFailed if no twin can.
        """
        looks = []
        failed = dict[str, TrialFailed]()
        for twin, why in self.twins.lacking.items():
            failed[twin] = TrialFailed(why)
        for twin in sorted(self.twins.endpoints.keys() - failed.keys()):
            try:
                looks.append(self._step_by_step(task, twin)["look"])
            except TrialFailed as error:
                failed[twin] = error
        # The same failure in two twins differs in the paths of its traceback: show one.
        messages = {failure.why: str(failure) for failure in failed.values()}
        if not looks:
            raise TrialFailed("\n".join(messages.values()))
        for message in messages.values():
            if "\n" in message:  # the output, which `_skip` does not show
                self.display.note(message)
        for twin, failure in failed.items():
            self._skip(f"the {twin} twin", failure.why)
        return [config for config in self.options.configs if TWIN[config] not in failed], looks

    def search(self, failed: Iterable[Candidate], reached: int) -> str:
        """Return which of the first *reached* samples fails without workers, after trials with
        workers have failed.

        A trial cannot tell: its process has ended at once or hangs, or a worker process has.
        """
        task = self._first_samples(own.SEARCH, reached)
        self.display.note(f"looking for a sample that fails among the {reached} that trials load")
        try:
            self._step_by_step(task, TWIN[next(iter(failed)).config])
        except TrialFailed as error:
            return f"without workers, {error.why}"
        return f"without workers, all {reached} samples load"

    def _first_samples(self, scenario: Scenario, samples: int) -> Task:
        """Return the task of *scenario* (own.LOOK, own.SEARCH):
        the first *samples* of --dataset, without workers.
        """
        parameters = self.scenario.case("").parameters
        return Task(scenario, [], "serial", 0, samples, 2, 1, PREFETCH_FACTOR, "", parameters)

    def _step_by_step(self, task: Task, twin: str) -> dict:
        """Return the result of a trial of --dataset; raises TrialFailed, which names the sample."""
        steps = 0  # a process that hangs or ends at once cannot say where
        request = replace(task, config=twin).request()
        try:
            with contextlib.closing(self.twins.endpoints[twin].start(request)) as trial:
                while (result := trial.go_on()) is None:
                    steps += 1
        except TrialFailed as error:
            raise TrialFailed(own.located(task, steps, str(error)), error.hung) from error
        return result

    def _skip(self, part: str, why: str) -> None:
        self.display.skip(f"{self.scenario.name}: {part}", why)
