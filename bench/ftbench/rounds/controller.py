"""The rounds of a scenario: every contestant once a round, in a new order each time, and in turns.

Rounds go on until the next would overrun the budget. The controller runs trials, checks that
all did the same work, and hands each finished round to whoever iterates; what becomes of it
(files, display) is not its business.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ftbench.machine.disturbance import State, state
from ftbench.plan.contestants import Contestant, reduce
from ftbench.rounds.endpoints import Endpoint, Trial
from ftbench.rounds.progress import Display
from ftbench.rounds.trials import TrialFailed
from ftbench.rounds.work import Work
from ftbench.stats.allocation import Costs
from ftbench.stats.statistics import FEWEST_ROUNDS
from ftrun.configurations import TWIN
from ftrun.interruption import Interruption

# Contestants are chosen so that so many rounds fit. A fourth round narrows an interval by a third
# (Student's t), which is worth more than the less important contestants; threads and processes of
# both builds (ranks up to ESSENTIAL; of the peers, those with a target) take part if three rounds fit.
ESSENTIAL = 1
PLANNED_ROUNDS = 4


class WorkDiffers(Exception):
    """Two contestants did not give the same samples, so comparing them would mean nothing."""


class Unavailable(Exception):
    """The scenario says that it cannot run here; the message is its reason."""


@dataclass
class SameWork:
    """Compares every trial's checksums with those of the first trial of its case that had them."""

    first_batch: tuple[str, int] | None = None
    rows: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    """By turn and batch of the turn: who has more workers measures more batches a turn, and each turn begins anew."""

    def check(self, title: str, result: Mapping) -> None:
        """Raise WorkDiffers if a batch of this trial is not that of an earlier one."""
        if result["first_batch"] is not None:
            if self.first_batch is None:
                self.first_batch = (title, result["first_batch"])
            self._compare(title, "first", self.first_batch, result["first_batch"])
        rows = result["rows"]
        a_turn = max(1, len(rows) // max(1, len(result.get("turn_seconds", ()))))
        for number, checksum in enumerate(rows):
            turn, batch = place = divmod(number, a_turn)
            self._compare(
                title,
                f"measured batch {batch} of turn {turn + 1}",
                self.rows.setdefault(place, (title, checksum)),
                checksum,
            )

    @staticmethod
    def _compare(title: str, batch: str, reference: tuple[str, int], checksum: int) -> None:
        if reference[1] != checksum:
            raise WorkDiffers(
                f"{title} and {reference[0]} gave different samples ({batch}: CRC-32 {checksum:08x} and "
                f"{reference[1]:08x}). If the files did not change meanwhile, this is a defect in a decoder "
                "or loader: please report it with both twins' descriptions (./twins info --json)."
            )


@dataclass
class Round:
    """A finished round: results by contestant key, in the order they were measured."""

    number: int
    seconds: float
    results: dict[str, dict]
    before: State
    """The machine when the round began, and when it had ended."""
    after: State


class Controller:
    """Runs one scenario's trials on the twins' endpoints. Owned by the main thread."""

    def __init__(
        self,
        work: Work,
        endpoints: Mapping[str, Endpoint],
        observer: Display,
        interruption: Interruption,
        seed: int,
        fewest: int = FEWEST_ROUNDS,
    ):
        self.work = work
        self._endpoints = endpoints
        self._observer = observer
        self._interruption = interruption
        self._order = random.Random(seed)
        self._fewest = fewest
        self.picture: str | None = None
        """The scenario's picture, a PNG in base64, once warm_up has had it drawn; None if it has none."""
        self._same_work: dict[str, SameWork] = {}
        self.differences: list[str] = []
        """Who gave other samples than others, where the scenario lets that pass."""
        self.failed: dict[str, str] = {}
        """Why contestants could not be measured, by key; they are left out from then on."""

    def _start(self, contestant: Contestant, draw: bool = False) -> Trial:
        self._interruption.check()
        request = self.work.request(contestant)
        if draw:
            request["draw"] = True
        return self._endpoints[TWIN[contestant.config]].start(contestant.config, request)

    def _checked(self, contestant: Contestant, result: dict) -> dict:
        """A trial's result; raises Unavailable or WorkDiffers."""
        if "unavailable" in result:
            raise Unavailable(result["unavailable"])
        try:
            self._same_work.setdefault(contestant.case, SameWork()).check(contestant.title, result)
        except WorkDiffers as error:
            if self.work.scenario.same_work:
                raise
            self.differences.append(str(error))
        return result

    def _heat(
        self, contestants: Sequence[Contestant], begins: Callable[[Contestant, int], None], seconds: dict[str, float]
    ) -> Iterator[tuple[Contestant, dict]]:
        """Yield (contestant, result): all trials are started, then each has its turns, in a new order each time.

        `begins` is told whenever one starts or has a turn; `seconds` takes up by key what each took in all.
        """
        with contextlib.ExitStack() as stack:
            trials: dict[str, Trial] = {}
            left = list(contestants)
            begun = time.monotonic()
            # All of them import at the same time, before anything is measured.
            for contestant in left:
                begins(contestant, 0)
                trial = self._try(contestant, functools.partial(self._start, contestant))
                if trial is not None:
                    trials[contestant.key] = stack.enter_context(contextlib.closing(trial))
            for contestant in left:
                if contestant.key in trials:
                    self._try(contestant, trials[contestant.key].go_on)
            imports = (time.monotonic() - begun) / len(left)
            seconds.update((contestant.key, imports) for contestant in left)
            # The first turn is the warm-up.
            for turn in itertools.count():
                left = [contestant for contestant in left if contestant.key not in self.failed]
                if not left:
                    return
                for contestant in list(left):
                    if turn:
                        begins(contestant, turn)
                    self._interruption.check()
                    started = time.monotonic()
                    result = self._try(contestant, trials[contestant.key].go_on)
                    seconds[contestant.key] += time.monotonic() - started
                    if result is not None:
                        left.remove(contestant)
                        yield contestant, self._checked(contestant, result)
                self._order.shuffle(left)

    def _try[T](self, contestant: Contestant, act: Callable[[], T]) -> T | None:
        """What `act` gives; None if the contestant fails in it, and has failed from then on."""
        try:
            return act()
        except TrialFailed as error:
            self.failed[contestant.key] = f"the trial of {contestant.title} failed: {error}"
            return None

    def warm_up(self, contestants: Sequence[Contestant]) -> Costs:
        """Run one trial of each twin that is not counted, and tell what trials cost on this machine.

        It brings the interpreters, libraries and images into the page cache, and shows early that a twin works.
        Imports and warm-ups are the shortest's (the others had more to read from disk), turns are their mean. A
        trial without turns has all its time in `turn`.
        """
        found: list[Costs] = []
        for twin in dict.fromkeys(TWIN[contestant.config] for contestant in contestants):
            # The first of the most workers that can be measured.
            of_twin = [contestant for contestant in contestants if TWIN[contestant.config] == twin]
            for contestant in sorted(of_twin, key=lambda c: -c.workers):
                self._observer.warm_up(contestant)
                costs = self._try(contestant, functools.partial(self._costs, contestant))
                if costs is not None:
                    found.append(costs)
                    break
        if not found:
            raise TrialFailed(next(iter(self.failed.values())))
        mean = sum(each.turn for each in found) / len(found)
        return Costs(min(each.imports for each in found), min(each.warm_up for each in found), mean)

    def _costs(self, contestant: Contestant) -> Costs:
        """Of a trial that is not counted, which may draw the scenario's picture."""
        draw = self.work.scenario.picture is not None and self.picture is None
        times = [time.monotonic()]
        with contextlib.closing(self._start(contestant, draw)) as trial:
            while (result := trial.go_on()) is None:
                times.append(time.monotonic())
        times.append(time.monotonic())
        self.picture = self._checked(contestant, result).get("picture", self.picture)
        imports, first, *turns = (after - before for before, after in itertools.pairwise(times))
        return Costs(imports, first, sum(turns) / len(turns)) if turns else Costs(imports, 0.0, first)

    def rounds(
        self,
        ranked: Sequence[tuple[int, Contestant]],
        deadline: float,
        trial_seconds: float,
        most: int | None,
        enough: Callable[[], bool] = lambda: False,
    ) -> Iterator[Round]:
        """Yield finished rounds of the ranked contestants (contestants.candidates).

        With `most`, that many rounds. Without, until the fewest that were asked for are done and either what they
        tell is `enough`, or the next would end after `deadline` (time.monotonic()); if the fewest will not fit,
        because the machine has become slower, the later ones go without the contestants of the highest ranks.

        A contestant whose trial fails is left out from then on (`failed`). Raises TrialFailed if none is left, and
        Interrupted, WorkDiffers, Unavailable or TwinError; rounds already yielded stand.
        """
        fewest = self._fewest if most is None else most
        ranked = sorted((each for each in ranked if each[1].key not in self.failed), key=lambda each: each[0])
        contestants = [c for _, c in ranked]
        # Of each contestant the longest so far: the last round is the one that must not overrun.
        longest = dict.fromkeys((c.key for c in contestants), trial_seconds)
        number = 0
        while most is None or number < most:
            begin = time.monotonic()
            expected = sum(longest[c.key] for c in contestants)
            if number >= fewest and (begin + expected > deadline or (most is None and enough())):
                return
            number += 1
            before = state()
            # Who is alive together does not change from round to round, who comes first does.
            heats = self.work.heats(contestants)
            self._order.shuffle(heats)
            for heat in heats:
                self._order.shuffle(heat)
            begins = self._telling(
                number, begin, expected, self._last_round(begin, expected, number, fewest, most, deadline), contestants
            )
            results: dict[str, dict] = {}
            took: dict[str, float] = {}
            for heat in heats:
                for contestant, result in self._heat(heat, begins, took):
                    results[contestant.key] = result
            if not results:
                raise TrialFailed(next(iter(self.failed.values())))
            ranked = [(rank, c) for rank, c in ranked if c.key in results]
            contestants = [c for _, c in ranked]
            for key, seconds in took.items():
                longest[key] = seconds if number == 1 else max(longest[key], seconds)
            now = time.monotonic()
            if most is None and number < fewest:
                contestants, _ = reduce(ranked, (deadline - now) / (fewest - number), lambda c: longest[c.key])
                # Who has missed a round has no more to say in the others.
                ranked = [(rank, c) for rank, c in ranked if c in contestants]
            expected = sum(longest[c.key] for c in contestants)
            rounds = max(number, self._last_round(now, expected, number + 1, fewest, most, deadline))
            self._observer.round_done(number, rounds, now - begin, (rounds - number) * expected)
            yield Round(number, now - begin, results, before, state())

    def _telling(
        self, number: int, begin: float, expected: float, rounds: int, contestants: Sequence[Contestant]
    ) -> Callable[[Contestant, int], None]:
        """A function that tells the observer of each trial and each of several turns that begins in a round."""
        turns = {c.key: self.work.cases[c.case].turns for c in contestants}
        steps = sum(1 + of if of > 1 else 1 for of in turns.values())
        done = itertools.count()

        def begins(contestant: Contestant, turn: int) -> None:
            if turn == 0 or turns[contestant.key] > 1:
                remaining = max(0.0, begin + expected * (rounds - number + 1) - time.monotonic())
                self._observer.trial(number, rounds, next(done) / steps, len(turns), contestant, turn, remaining)

        return begins

    @staticmethod
    def _last_round(begin: float, expected: float, number: int, fewest: int, most: int | None, deadline: float) -> int:
        """The number of the last round, as far as can be told in round `number` (begun at `begin`)."""
        fitting = number - 1 + int(max(0.0, deadline - begin) // max(expected, 1e-3))
        return max(fewest, fitting) if most is None else most


def measured(
    rounds: Sequence[Round], contestants: Sequence[Contestant], metrics: Sequence[str]
) -> dict[str, dict[str, list[float]]]:
    """values[metric][key] of contestants that took part in all rounds, one value per round."""
    return {
        metric: {c.key: [r.results[c.key]["metrics"][metric] for r in rounds] for c in contestants}
        for metric in metrics
    }


def choose(
    ranked: Sequence[tuple[int, Contestant]], seconds: float, trial_seconds: float, fewest: int = FEWEST_ROUNDS
) -> tuple[list[Contestant], list[Contestant]]:
    """(kept, given up): the ranked contestants (contestants.candidates) for a budget and at least `fewest` rounds."""
    kept, given_up = reduce(ranked, int(seconds / (max(PLANNED_ROUNDS, fewest) * trial_seconds)))
    essential = [each for each in ranked if each[0] <= ESSENTIAL]
    if len(kept) < len(essential):
        kept, _ = reduce(essential, int(seconds / (fewest * trial_seconds)))
        given_up = [c for _, c in ranked if c not in kept]
    return kept, given_up
