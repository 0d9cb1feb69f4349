"""All runs of a script, in rounds. A round runs the script once in each configuration,
in random order.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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


def every_outcome(runs: Mapping[str, Runs]) -> Iterator[Outcome]:
    """Yield the outcomes of all runs, by configuration."""
    for config_runs in runs.values():
        yield from config_runs.outcomes


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

Enough = Callable[[Mapping[str, Runs], int], bool]
"""Called with the runs and the number of rounds that were made;
True if no further rounds are needed.
"""


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
        self.script, self.twins, self.limits = script, twins, limits
        self.missing = dict(missing or {})
        self.stopped: str | None = None
        """The reason why the rounds ended early; None if they did not."""
        self.forced_off: set[str] = set()
        """The configurations in which PYTHON_GIL=0 holds the GIL off,
        because an import turned it on.
        """
        self._progress, self._deadline = progress, deadline

    def run(
        self,
        configs: Iterable[str],
        repeat: int,
        threads: int,
        title: str = "",
        enough: Enough = lambda _runs, _rounds: False,
    ) -> dict[str, Runs]:
        """Run `repeat` rounds over `configs` and return the runs; end early if `enough` returns
        True after a round.

        The deadline or an interruption also ends the rounds. `stopped` is then the reason.
        `Runs.missing` is the reason why a configuration could not run.
        """
        result = {config: Runs(config) for config in configs}
        for config, runs in result.items():
            runs.missing = self.missing.get(twin_of(config))
        order = [config for config, runs in result.items() if runs.missing is None]
        self._rounds(result, order, repeat, threads, title, enough)
        if self.stopped:
            for runs in result.values():
                runs.missing = runs.missing or self.stopped
        return result

    def _rounds(
        self,
        result: dict[str, Runs],
        order: list[str],
        repeat: int,
        threads: int,
        title: str,
        enough: Enough,
    ) -> None:
        shuffle = random.Random(0).shuffle
        for number in range(repeat):
            if self.stopped:
                break
            used_up = (
                f"the time for all runs (--budget) was used up after {number} of {repeat} rounds"
            )
            if number and time.monotonic() >= self._deadline:
                self.stopped = used_up
                break
            shuffle(order)
            for config in [config for config in order if result[config].missing is None]:
                try:
                    self._turn(result[config], title, number, repeat, threads)
                except Interrupted as error:
                    self.stopped = f"interrupted ({error}) in round {number + 1} of {repeat}"
                    break
                except TimeoutError:
                    self.stopped = used_up
                    break
            if self.stopped or enough(result, number + 1):
                break

    def _turn(self, runs: Runs, title: str, number: int, repeat: int, threads: int) -> None:
        twin = self.twins[twin_of(runs.config)]
        # The first run may find that an import turns the GIL on;
        # it is then made again with the GIL held off.
        for _ in range(2):
            self._progress(title, number, repeat, runs.config, None)
            off = runs.config in self.forced_off
            request = Request(twin.config or runs.config, self.script, threads, self.limits, off)
            try:
                outcome = twin.reproduce(request)
            except TwinError as error:
                self.missing[twin_of(runs.config)] = runs.missing = (
                    f"lost in run {len(runs.outcomes) + 1}: {error}"
                )
                return
            runs.outcomes.append(outcome)
            self._progress(title, number, repeat, runs.config, outcome)
            if outcome.kind != Kind.GIL or off:
                break
            self.forced_off.add(runs.config)
        runs.forced_off = runs.config in self.forced_off
