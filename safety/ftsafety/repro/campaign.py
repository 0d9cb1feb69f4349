"""All runs of a script, in rounds. A round runs the script once in each configuration,
in random order.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ftrun.configurations import CONFIGURATIONS
from ftrun.errors import Interrupted, TwinError
from ftsafety.repro.outcome import Kind, Outcome
from ftsafety.repro.request import Limits, Request
from ftsafety.repro.script import Script


@dataclass
class Runs:
    """Outcomes of the runs in one configuration."""

    config: str
    outcomes: list[Outcome] = field(default_factory=list)
    """Outcomes in the order of the runs."""
    missing: str | None = None
    """The reason why runs of the configuration are missing; None if all were made."""
    forced_off: bool = False
    """True if PYTHON_GIL=0 was needed to keep the GIL off, because an import turned it on."""

    @property
    def counted(self) -> int:
        """Number of runs that succeeded or failed;
        blocked runs and exceeded limits do not count.
        """
        return sum(outcome.kind.judged for outcome in self.outcomes)

    @property
    def failures(self) -> int:
        return sum(outcome.kind.failed for outcome in self.outcomes)

    @property
    def kinds(self) -> Counter[Kind]:
        """Number of runs by the kind of their outcome."""
        return Counter(outcome.kind for outcome in self.outcomes)

    def of_kind(self, kind: Kind) -> list[Outcome]:
        """Return the outcomes of this kind, in the order of the runs."""
        return [outcome for outcome in self.outcomes if outcome.kind is kind]

    def uncounted_details(self) -> list[str]:
        """Return the details of the outcomes that do not count, in the order of the runs."""
        return [outcome.detail for outcome in self.outcomes if not outcome.kind.judged]


AllRuns = Mapping[str, Runs]
"""Runs by configuration."""


def every_outcome(runs: AllRuns) -> Iterator[Outcome]:
    """Yield the outcomes of all runs, by configuration."""
    for config_runs in runs.values():
        yield from config_runs.outcomes


def names_by_value[Value: Hashable](
    values: Iterable[tuple[str, Value]],
) -> dict[Value, list[str]]:
    """Return {value: names that have it}, from (name, value) pairs."""
    names: dict[Value, list[str]] = {}
    for name, value in values:
        names.setdefault(value, []).append(name)
    return names


def twin_of(config: str) -> str:
    """Return the name of the twin that runs *config*. For an interpreter of --interpreter,
    this is *config* itself.
    """
    return CONFIGURATIONS[config].twin if config in CONFIGURATIONS else config


class Runner(Protocol):
    """Protocol of the twins: methods that a campaign calls."""

    @property
    def config(self) -> str | None:
        """The only configuration that this twin can run; None if there are several."""

    def reproduce(self, request: Request) -> Outcome:
        """Run a script once. Raises TwinError, Interrupted, or TimeoutError at the end of the time
        for all runs.
        """


Progress = Callable[[str, int, int, str, Outcome | None], None]
"""Called before each run (outcome None) and after it, with (title,
rounds done, all rounds, configuration, outcome).
"""

Enough = Callable[[AllRuns, int], bool]
"""Called with the runs and the number of rounds that were made;
True if no further rounds are needed.
"""


def _never(runs: AllRuns, rounds: int) -> bool:
    return False


@dataclass(frozen=True)
class RoundsPlan:
    """Rounds that are to be made."""

    repeat: int
    """Number of rounds."""
    threads: int
    """Number of threads that the script is asked to start."""
    title: str = ""
    """The start of each line of progress."""
    enough: Enough = _never


class Campaign:
    """Runs of one script in several configurations. Owned by one thread."""

    def __init__(
        self,
        script: Script,
        twins: Mapping[str, Runner],
        limits: Limits,
        progress: Progress,
        deadline: float,
        missing: dict[str, str] | None = None,
    ):
        """Prepare the runs; none is started.

        Args:
            twins: the twins that run the script, by name.
            deadline: time.monotonic() at which the rounds end.
            missing: by the name of a twin, the reason why this twin cannot run the script.
        """
        self.script = script
        self.twins = twins
        self.limits = limits
        self.missing = dict(missing or {})
        self.stopped: str | None = None
        """The reason why the rounds ended early; None if they did not."""
        self.forced_off: set[str] = set()
        """The configurations in which PYTHON_GIL=0 holds the GIL off,
        because an import turned it on.
        """
        self._progress = progress
        self._deadline = deadline

    def run(
        self,
        configs: Iterable[str],
        repeat: int,
        threads: int,
        title: str = "",
        enough: Enough = _never,
    ) -> dict[str, Runs]:
        """Run `repeat` rounds over `configs` and return the runs; end early if `enough` returns
        True after a round.

        The deadline or an interruption also ends the rounds. `stopped` is then the reason.
        `Runs.missing` is the reason why a configuration could not run.
        """
        result = {}
        for config in configs:
            missing = self.missing.get(twin_of(config))
            result[config] = Runs(config, missing=missing)
        order = [config for config, runs in result.items() if runs.missing is None]
        self._rounds(result, order, RoundsPlan(repeat, threads, title, enough))
        for runs in result.values():
            runs.missing = runs.missing or self.stopped
        return result

    def _rounds(self, result: AllRuns, order: list[str], plan: RoundsPlan) -> None:
        """Make the rounds of *plan* over the configurations *order*; add outcomes to *result*."""
        if self.stopped:
            return
        shuffle = random.Random(0).shuffle
        for number in range(plan.repeat):
            if number and time.monotonic() >= self._deadline:
                self.stopped = _used_up(number, plan)
                return
            shuffle(order)
            self._round(result, order, number, plan)
            if self.stopped or plan.enough(result, number + 1):
                return

    def _round(self, result: AllRuns, order: Iterable[str], number: int, plan: RoundsPlan) -> None:
        for config in order:
            if result[config].missing is not None:
                continue
            try:
                self._turn(result[config], number, plan)
            except Interrupted as error:
                self.stopped = f"interrupted ({error}) in round {number + 1} of {plan.repeat}"
                return
            except TimeoutError:
                self.stopped = _used_up(number, plan)
                return

    def _turn(self, runs: Runs, number: int, plan: RoundsPlan) -> None:
        """Run the script once in a configuration.

        The run may show that an import turns the GIL on. It is then made again with the GIL held
        off, as are all later runs.
        """
        held_off = runs.config in self.forced_off
        outcome = self._run_once(runs, number, plan)
        if outcome is not None and outcome.kind == Kind.GIL and not held_off:
            self.forced_off.add(runs.config)
            outcome = self._run_once(runs, number, plan)
        if outcome is not None:
            runs.forced_off = runs.config in self.forced_off

    def _run_once(self, runs: Runs, number: int, plan: RoundsPlan) -> Outcome | None:
        """Return the outcome, which is added to *runs*; None if the twin was lost."""
        name = twin_of(runs.config)
        twin = self.twins[name]
        off = runs.config in self.forced_off
        request = Request(twin.config or runs.config, self.script, plan.threads, self.limits, off)
        self._progress(plan.title, number, plan.repeat, runs.config, None)
        try:
            outcome = twin.reproduce(request)
        except TwinError as error:
            runs.missing = f"lost in run {len(runs.outcomes) + 1}: {error}"
            self.missing[name] = runs.missing
            return None
        runs.outcomes.append(outcome)
        self._progress(plan.title, number, plan.repeat, runs.config, outcome)
        return outcome


def _used_up(number: int, plan: RoundsPlan) -> str:
    return f"the time for all runs (--budget) was used up after {number} of {plan.repeat} rounds"
