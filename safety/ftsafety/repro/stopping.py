"""Early stopping: the decision to end the runs when further runs would not change the verdict.

The rule is that of Haybittle (1971, doi:10.1259/0007-1285-44-526-793) and Peto et al. (1976,
doi:10.1038/bjc.1976.220). An interim test ends the runs only if p < 0.001. The significance level
of the final test is 0.05 minus 0.001 for each planned interim test. By Bonferroni's inequality, the
probability that any of these tests makes a wrong claim is at most 5%.
"""

from __future__ import annotations

from ftsafety.repro.blocked import settled
from ftsafety.repro.campaign import AllRuns, every_outcome
from ftsafety.repro.outcome import Kind, Outcome
from ftsafety.repro.verdict import SIGNIFICANT, SOUGHT, judge, signatures_of

FIRST_LOOK = 5  # rounds
INTERIM = 0.001
ENOUGH_HANGS = 3  # rounds


def looks(repeat: int) -> list[int]:
    """Return the numbers of rounds after which an interim test is made:
    5, 10, 20, 40, ..., below *repeat*.
    """
    rounds, at = [], FIRST_LOOK
    while at < repeat:
        rounds.append(at)
        at *= 2
    return rounds


class EarlyStop:
    """Stopping rule, called after each round, or after several. Owned by one thread."""

    def __init__(self, repeat: int, every_run: bool = False):
        self.reason: str | None = None
        """The reason why the runs end early, in words; None if they go on."""
        self._repeat, self._every_run = repeat, every_run
        self._looks: list[int] = []
        if not every_run:
            self._looks = looks(repeat)
        self._round = 0

    @property
    def level(self) -> float:
        """The significance level for the final verdict.
        It depends on whether the runs ended early.
        """
        return INTERIM if self.reason else SIGNIFICANT - INTERIM * len(self._looks)

    def __call__(self, runs: AllRuns, rounds: int) -> bool:
        """Return True if no further rounds are needed. *rounds*:
        the number of rounds that were made.
        """
        if not self._every_run and rounds < self._repeat:
            nonempty = _nonempty(runs)
            self.reason = self._reason(nonempty, rounds) if nonempty else None
        self._round = rounds
        return self.reason is not None

    def _reason(self, runs: AllRuns, rounds: int) -> str | None:
        if rounds >= ENOUGH_HANGS and _only_hangs(runs):
            return f"none of {sum(1 for _ in every_outcome(runs))} runs ended in time"
        if not self._has_test(rounds):
            return None
        runs = settled(runs)
        outcomes = list(every_outcome(runs))
        # If a part of the script runs, there may be a race in it that more runs find.
        if all(map(_is_blocked_whole, outcomes)):
            return "no run got to the script's bug"
        ends = set(map(_end, outcomes))
        if len(ends) == 1 and outcomes[0].kind.failed:
            return "all runs of all configurations ended alike"
        if judge(runs, INTERIM).pattern in SOUGHT:
            return f"the difference was significant (p < {INTERIM:g})"
        return None

    def _has_test(self, rounds: int) -> bool:
        """Return True if an interim test is due after *rounds*."""
        return any(self._round < look <= rounds for look in self._looks)


def _nonempty(runs: AllRuns) -> AllRuns:
    return {config: config_runs for config, config_runs in runs.items() if config_runs.outcomes}


def _only_hangs(runs: AllRuns) -> bool:
    # Looks at few outcomes in each of thousands of rounds.
    return all(outcome.kind is Kind.HANG for outcome in every_outcome(runs))


def _end(outcome: Outcome) -> tuple:
    """Return how a run ended: equal for runs that ended alike, though at other places."""
    names = {(signature.kind, signature.what) for signature in signatures_of(outcome)}
    return outcome.kind, frozenset(names)


def _is_blocked_whole(outcome: Outcome) -> bool:
    if outcome.kind is not Kind.BLOCKED or outcome.blocker is None:
        return False
    return outcome.blocker.ended == "script"
