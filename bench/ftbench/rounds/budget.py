"""The time that a scenario's rounds may take, and the refusal of a budget that is too short."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from ftbench.document.model import Options
from ftbench.plan import shortest
from ftbench.plan.scenario import Scenario
from ftbench.plan.sizing import BudgetTooShort
from ftbench.rounds.progress import Display


@dataclass(frozen=True)
class Budget:
    """The part of a run's time (--budget) that is left for a scenario."""

    scenario: Scenario
    options: Options
    display: Display
    left: Callable[[], float] | None
    """Function that returns the seconds left of a budget that must not be exceeded; None if there
    is no such budget.
    """

    def limit(self, processes: int, cpus: int) -> float:
        """Return the time (time.monotonic()) at which the budget is over;
        infinity if it may be exceeded.

        Raises BudgetTooShort if fewer than *processes* processes, each with its ranks, could be
        started by then.
        """
        if not self.left:
            return math.inf
        ranks = self.options.ranks or 1
        budget = self.options.budget
        left = self.left()
        least = shortest.starting_seconds(processes, ranks, cpus)
        if left < least:
            raise BudgetTooShort(
                shortest.refusal(budget, processes, ranks, budget - left + least, self._usual)
            )
        return time.monotonic() + left

    @property
    def _usual(self) -> float:
        return self.scenario.share(self.options.quick)

    def check(self, rounds: int, seconds: float, share: float) -> None:
        """Raise BudgetTooShort if *rounds* rounds of *seconds* each would take longer than the rest
        of the budget.

        Without a budget that must not be exceeded, only print a note if the rounds are expected to
        take much longer than *share* (s).
        """
        if self.left:
            left = self.left()
            if rounds * seconds > left:
                raise BudgetTooShort(
                    f"{rounds} rounds need about {rounds * seconds:.0f} s, and "
                    f"{max(0.0, left):.0f} s are left of "
                    f"--budget {self.options.budget:g}: give more, or a number of --rounds"
                )
            return
        over = rounds * seconds - share
        if self.options.rounds is None and over > 0.2 * self._usual:
            why = (
                f"as {rounds} rounds, the fewest for a verdict, need "
                f"{rounds * seconds / 60:.0f} min here"
            )
            self.display.note(
                f"{self.scenario.name} takes about {over / 60:.0f} min longer than listed, {why}"
            )

    def warn_of_few_rounds(self, finished: int, fewest: int) -> None:
        """Warn if the budget was over before the fewest rounds
        that a verdict needs were finished.
        """
        if self.options.rounds is None and finished < fewest:
            few = f"{finished} of the {fewest} rounds that a verdict needs"
            self.display.warn(
                f"{self.scenario.name}: --budget {self.options.budget:g} is over after {few}: "
                f"give more"
            )
