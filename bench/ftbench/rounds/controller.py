"""The rounds of a scenario. In each round, every candidate has one trial, and the trials take turns
in random order.

Rounds continue until one more would exceed the budget. The controller checks that all trials load
the same samples.
"""

import contextlib
import functools
import itertools
import math
import operator
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from statistics import fmean

from ftbench.document.convert import from_json
from ftbench.document.model import Failure, Round, RoundDisturbance, Trial
from ftbench.machine.disturbance import state, together
from ftbench.measure.checksums import by_batch
from ftbench.plan.candidates import VARIANTS, Candidate, Ranking, reduce
from ftbench.plan.sizing import BudgetTooShort
from ftbench.rounds import cycles
from ftbench.rounds.pace import Pace
from ftbench.rounds.progress import Display
from ftbench.rounds.work import Work
from ftbench.stats import allocation
from ftbench.stats.allocation import Costs
from ftbench.stats.statistics import FEWEST_ROUNDS
from ftbench.trial import endpoints
from ftbench.trial.process import TrialFailed
from ftrun.configurations import TWIN
from ftrun.interruption import Interruption

# Candidates are chosen so that PLANNED_ROUNDS fit. A fourth round narrows an interval by a third
# (Student's t), which is worth more than the less important candidates; threads and processes of
# both builds (ranks up to ESSENTIAL; of the peers, those asked for) take part if three rounds fit.
ESSENTIAL = 1
PLANNED_ROUNDS = 4
# The number of turns that is assumed when candidates are chosen, before the real number is planned.
USUAL_TURNS = 8
# Factor on the expected time of a trial, since trials vary.
CAUTION = 1.1


class WorkDiffers(Exception):
    """Raised if two candidates load different samples,
    so that comparing them would mean nothing.
    """


class Unavailable(Exception):
    """Raised if a scenario cannot run here; the message is the scenario's reason."""


def check_same_work(
    checksums: dict[str, tuple[str, int]], title: str, result: Mapping, difference: str
) -> None:
    """Compare a trial's checksums with `checksums` of earlier trials,
    and add new ones; may raise WorkDiffers, whose message is made with Scenario.difference.
    """
    turns = len(result.get("turn_seconds", ()))
    batches = by_batch(result["first_batch"], result["rows"], turns)
    for name, checksum in batches.items():
        first_title, expected = checksums.setdefault(name, (title, checksum))
        if checksum != expected:
            raise WorkDiffers(
                f"{title} and {first_title} {difference} ({name}: CRC-32 {checksum:08x} and "
                f"{expected:08x})."
            )


def failures(failed: Mapping[Candidate, Failure]) -> str:
    """Return one line with the failed trials and the reason for each failure,
    for messages during the run.
    """
    lines = [f"the trial of {c.title} failed: {failure.reason}" for c, failure in failed.items()]
    return "; ".join(lines)


@dataclass
class Controller:
    """Runner of one scenario's trials on the twins' endpoints. Used by the main thread only."""

    work: Work
    twins: Mapping[str, endpoints.Endpoint]
    display: Display
    interruption: Interruption
    seed: int
    fewest: int = FEWEST_ROUNDS
    limit: float = math.inf
    """Time (time.monotonic()) after which no round begins,
    even if there are fewer than `fewest`.
    """
    seen: dict[str, dict[str, tuple[str, int]]] = field(default_factory=dict, init=False)
    """{case: {batch name: (title of the first candidate that loaded the batch,
    checksum of the batch)}}
    """
    notes: dict[str, None] = field(default_factory=dict, init=False)
    """Notes of the trials, each once, in the order in which they came."""
    differences: list[str] = field(default_factory=list, init=False)
    """Messages about differing samples, if the scenario allows different samples."""
    failed: dict[Candidate, Failure] = field(default_factory=dict, init=False)
    """Candidates that failed and are left out from then on, with their failures."""
    repeated: dict[Candidate, Failure] = field(default_factory=dict, init=False)
    """Failures of trials that were run again in the same round.
    This happens at most once for each candidate.
    """

    def __post_init__(self) -> None:
        self._order = random.Random(self.seed)

    def _start(self, candidate: Candidate) -> endpoints.RunningTrial:
        self.interruption.check()
        request = {**self.work.task(candidate).request(), "hash_seed": self.seed}
        return self.twins[TWIN[candidate.config]].start(request)

    def _checked(self, candidate: Candidate, result: dict) -> dict[Candidate, Trial]:
        """Check a trial's result, and return a Trial for each of its cases;
        raises Unavailable or WorkDiffers.
        """
        if "unavailable" in result:
            raise Unavailable(result["unavailable"])
        trials = {}
        case_results = {}, *result.pop("others", ())
        for c, case_result in zip(self.work.measured([candidate]), case_results, strict=True):
            case_result = {**result, **case_result}
            try:
                seen = self.seen.setdefault(c.case, {})
                check_same_work(seen, c.title, case_result, self.work.scenario.difference)
            except WorkDiffers as error:
                if self.work.scenario.same_work:
                    raise
                self.differences.append(str(error))
            self.notes[case_result["note"]] = None
            trials[c] = from_json(Trial, {"candidate": c.key, **case_result})
        return trials

    def _measure_group(
        self, group: Sequence[Candidate], trials: dict[Candidate, Trial]
    ) -> dict[Candidate, float]:
        """Run a trial of each candidate, in turns, and add the results to `trials`.

        Return the seconds that each trial added to the run: its warm-up,
        its turns and its part of the imports.
        """
        with contextlib.ExitStack() as stack:
            begun = time.monotonic()
            started = self._started(group, stack)
            seconds = dict.fromkeys(group, (time.monotonic() - begun) / len(group))
            for turn in itertools.count():  # turn 0 is the warm-up
                unfinished = [c for c in group if c not in trials and c not in self.failed]
                if not unfinished:
                    break
                if turn:
                    self._order.shuffle(unfinished)
                for candidate in unfinished:
                    if turn:
                        self.display.trial(candidate, turn)
                    self.interruption.check()
                    trial = started[candidate]
                    seconds[candidate] += self._take_turn(candidate, trial, trials)
        return seconds

    def _take_turn(
        self,
        candidate: Candidate,
        running: endpoints.RunningTrial,
        trials: dict[Candidate, Trial],
    ) -> float:
        """Let a trial take its next turn; return its seconds. The last turn's result is added to
        `trials`.
        """
        begin = time.monotonic()
        result = self._try(candidate, running.go_on)
        seconds = time.monotonic() - begin
        if result is not None:
            trials.update(self._checked(candidate, result))
        return seconds

    def _started(
        self, group: Sequence[Candidate], stack: contextlib.ExitStack
    ) -> dict[Candidate, endpoints.RunningTrial]:
        """Start a trial of each candidate, and wait for their imports;
        *stack* closes the trials.
        """
        started: dict[Candidate, endpoints.RunningTrial] = {}
        # All trials import at the same time, before anything is measured.
        for candidate in group:
            self.display.trial(candidate, 0)
            if trial := self._try(candidate, functools.partial(self._start, candidate)):
                started[candidate] = stack.enter_context(contextlib.closing(trial))
        for candidate, trial in started.items():
            self._try(candidate, trial.go_on)
        return started

    def _try[T](self, candidate: Candidate, act: Callable[[], T]) -> T | None:
        """Return the result of act(). If it raises TrialFailed,
        add the failure to `failed`, and return None.
        """
        try:
            return act()
        except TrialFailed as error:
            failure = Failure(error.kind, candidate.key, error.why)
            words = str(error)
            if self.repeated.get(candidate) == failure:
                # The output of the first try has been shown,
                # so a second one that fails alike gets one line.
                words = error.why
            self.display.note(f"the trial of {candidate.title} failed: {words}")
            self.failed[candidate] = failure
            return None

    def _again(self, group: Iterable[Candidate]) -> list[Candidate]:
        """Return the failed candidates of the group that get a second try;
        move their failures to `repeated`.

        Only a first failure gets a second try, and a trial that hung gets none.
        """
        second_tries = []
        for candidate in group:
            failure = self.failed.get(candidate)
            if failure and failure.kind != "hung" and candidate not in self.repeated:
                self.repeated[candidate] = self.failed.pop(candidate)
                second_tries.append(candidate)
        return second_tries

    def warm_up(self, candidates: Sequence[Candidate]) -> Costs:
        """Run uncounted trials in each twin until one succeeds;
        return the times (Costs) of a trial's parts.

        These trials fill the page cache, and show early that each twin works. The returned time of
        a turn is the mean over the twins. The times of imports and of the warm-up are the shortest
        of any twin, since longer ones include waits for the disk. Raises BudgetTooShort once
        `limit` has passed.
        """
        costs: list[Costs] = []
        hung: set[bool] = set()
        by_twin: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            by_twin.setdefault(TWIN[candidate.config], []).append(candidate)
        for in_twin in by_twin.values():
            if time.monotonic() > self.limit:
                raise BudgetTooShort(
                    "--budget is over before the first round: give more, or a number of --rounds"
                )
            if twin_costs := self._warm_up_twin(in_twin, hung, bool(costs)):
                costs.append(twin_costs)
        if not costs:
            raise self._all_failed()
        return typical(costs)

    def _warm_up_twin(
        self, candidates: Sequence[Candidate], hung: set[bool], any_succeeded: bool
    ) -> Costs | None:
        """Try a twin's candidates, those with the most workers first;
        return the Costs of the first that succeeds.

        *hung*: whether processes (True) or threads (False) hung so far, in any twin. A kind that
        hung is skipped until a candidate has succeeded in some twin. Adds to *hung*. Returns None
        if none succeeds.
        """
        for candidate in sorted(candidates, key=lambda c: -c.workers):
            processes = VARIANTS[candidate.variant].processes
            if processes in hung and not any_succeeded:
                continue
            self.display.warm_up(candidate)
            if costs := self._try(candidate, functools.partial(self._costs, candidate)):
                self._again(candidates)  # those that failed get a second try in the first round
                return costs
            if self.failed[candidate].kind == "hung":
                hung.add(processes)
        return None

    def _all_failed(self) -> TrialFailed:
        return TrialFailed(failures(dict(itertools.islice(self.failed.items(), 1))))

    def _costs(self, candidate: Candidate) -> Costs:
        """Run a trial whose result is not kept, and return the measured times of its parts."""
        times = [time.monotonic()]
        with contextlib.closing(self._start(candidate)) as trial:
            while (result := trial.go_on()) is None:
                times.append(time.monotonic())
        times.append(time.monotonic())
        self._checked(candidate, result)
        imports, first, *turns = map(operator.sub, times[1:], times)
        if not turns:
            return Costs(imports, 0.0, first)
        return Costs(imports, first, fmean(turns))

    def plan(
        self, ranked: Ranking, costs: Costs, seconds: float, cpus: int, everybody: bool = False
    ) -> tuple[Ranking, list[Candidate], float]:
        """Choose candidates: all if *everybody*, else those whose rounds fit into `seconds`. Set
        the turns per trial.

        Return (kept candidates, dropped candidates, expected seconds of a trial).
        """
        turns, at_once = 1, 1
        if self.work.takes_turns:
            turns = USUAL_TURNS
            at_once = min(cpus, len(ranked))
        kept = ranked.candidates
        given_up = list[Candidate]()
        if not everybody:
            trial_seconds = costs.trial(turns, at_once) * CAUTION
            kept, given_up = choose(ranked, seconds, trial_seconds, self.fewest)
        if self.work.takes_turns:
            turns = allocation.turns(seconds / CAUTION, len(kept), costs, at_once)
            self.work = self.work.with_turns(turns)
        return ranked.among(kept), given_up, costs.trial(turns, at_once) * CAUTION

    def rounds(
        self,
        ranked: Ranking,
        deadline: float,
        trial_seconds: float,
        most: int | None,
        enough: Callable[[], bool] = lambda: False,
    ) -> Iterator[Round]:
        """Run rounds of the candidates, and yield each finished round.

        If `most` is a number, `most` rounds are run. If it is None, at least `fewest` rounds are
        run, then more until `enough()` is true or the next one would end after `deadline`
        (time.monotonic()). If the time is too short for `fewest` rounds, candidates of the highest
        drop ranks are left out. Fewer rounds are run only if the next one would end after `limit`.
        Raises TrialFailed if no candidate is left, and Interrupted, WorkDiffers, Unavailable,
        TwinError.
        """
        fewest = self.fewest
        if most is not None:
            fewest = most
        able = ranked.without(self.failed)
        able.sort(key=operator.itemgetter(0))
        pace = Pace(able, trial_seconds, fewest, most, deadline, self.limit)
        while pace.has_time(begin := time.monotonic()):
            if pace.has_fewest() and enough():
                return
            turns = {c: self.work.turns(c) for c in pace.candidates}
            to_come = pace.to_come(begin)
            end = begin + to_come * pace.round_seconds
            self.display.round(pace.number + 1, pace.number + to_come, turns, end)
            finished, seconds = self._round(pace.number + 1, pace.candidates)
            now = time.monotonic()
            pace.add(finished, seconds, now)
            to_come = pace.to_come(now)
            left = to_come * pace.round_seconds
            self.display.round_done(pace.number, pace.number + to_come, finished.seconds, left)
            yield finished

    def _round(
        self, number: int, candidates: list[Candidate]
    ) -> tuple[Round, dict[Candidate, float]]:
        """Run a trial of every candidate; raises TrialFailed if all fail.

        Return the round, and the seconds that each trial added to the run (see `_measure_group`).
        """
        begin = time.monotonic()
        before = state()
        # Groups stay the same in every round; their order is shuffled.
        groups = self.work.groups(candidates)
        self._order.shuffle(groups)
        trials: dict[Candidate, Trial] = {}
        longest: dict[Candidate, float] = {}
        for group in groups:
            self._order.shuffle(group)
            for c, seconds in self._measure_group(group, trials).items():
                longest[c] = max(seconds, longest.get(c, 0.0))
            self._leave_out_cycles(group, trials, before.affinity)
            if second_tries := self._again(group):
                groups.append(second_tries)
        if not trials:
            raise self._all_failed()
        disturbances = together([vars(trial.disturbance) for trial in trials.values()])
        disturbance = RoundDisturbance(**disturbances, before=before)
        seconds = round(time.monotonic() - begin, 2)
        return Round(number, seconds, list(trials.values()), disturbance), longest

    def _leave_out_cycles(
        self, group: Sequence[Candidate], trials: dict[Candidate, Trial], usable: float
    ) -> None:
        """Replace trials of a group by trials without the cycles in which others took CPUs."""
        measured = [c for c in self.work.measured(group) if c in trials]
        positions = cycles.disturbed([trials[c] for c in measured], usable)
        if positions:
            for candidate in measured:
                trials[candidate] = cycles.without(trials[candidate], positions)


def typical(costs: Sequence[Costs]) -> Costs:
    """Return the shortest imports, the shortest warm-up and the mean turn of the twins' *costs*."""
    imports, warm_ups, turns = zip(*map(astuple, costs), strict=True)
    return Costs(min(imports), min(warm_ups), fmean(turns))


def choose(
    ranked: Ranking, seconds: float, trial_seconds: float, fewest: int = FEWEST_ROUNDS
) -> tuple[list[Candidate], list[Candidate]]:
    """Return (kept, dropped). Drops the highest drop ranks until
    PLANNED_ROUNDS rounds fit into `seconds`.

    Drops essential candidates (drop rank up to ESSENTIAL) only as far as necessary for `fewest`
    rounds to fit.
    """
    planned = max(PLANNED_ROUNDS, fewest)
    kept, given_up = reduce(ranked, int(seconds / (planned * trial_seconds)))
    essential = ranked.up_to(ESSENTIAL)
    if len(kept) < len(essential):
        kept, _ = reduce(essential, int(seconds / (fewest * trial_seconds)))
        given_up = ranked.without(kept).candidates
    return kept, given_up
