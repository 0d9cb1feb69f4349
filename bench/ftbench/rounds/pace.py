"""The pace of a scenario's rounds: how long they are expected to take,
and how many there will be.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ftbench.document.model import Round
from ftbench.plan.candidates import Candidate, Ranking, reduce


@dataclass
class Pace:
    """The candidates that are still measured, and the times of their trials.
    Only `add` changes them.

    All moments are of time.monotonic().
    """

    ranked: Ranking
    """The candidates, sorted by drop rank."""
    trial_seconds: float
    """Expected time of a trial, before the first round."""
    fewest: int
    """Least number of rounds."""
    most: int | None
    """Exact number of rounds; None for as many as fit."""
    deadline: float
    """Time after which no round begins if there are enough."""
    limit: float
    """Time after which no round begins, even if there are fewer than `fewest`."""
    number: int = field(default=0, init=False)
    """Number of finished rounds."""

    def __post_init__(self) -> None:
        # The longest trial of each candidate so far: the last round must not overrun.
        self._longest = dict.fromkeys(self.candidates, self.trial_seconds)

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates of the next round."""
        return self.ranked.candidates

    @property
    def round_seconds(self) -> float:
        """Expected time of the next round."""
        return sum(self._longest[c] for c in self.candidates)

    def has_fewest(self) -> bool:
        """True if there are enough rounds for a verdict."""
        return self.number >= self.fewest

    def has_time(self, now: float) -> bool:
        """True if another round may begin *now*. The first one always may."""
        if self.most is not None and self.number >= self.most:
            return False
        end = self.limit
        if self.has_fewest():
            end = self.deadline
        return not self.number or now + self.round_seconds <= end

    def to_come(self, now: float) -> int:
        """Return the expected number of rounds from *now* on."""
        if self.most is not None:
            return self.most - self.number
        fitting = int(max(0.0, self.deadline - now) // max(self.round_seconds, 1e-3))
        return max(self.fewest - self.number, fitting)

    def add(self, finished: Round, seconds: Mapping[Candidate, float], now: float) -> None:
        """Add a round whose trials took *seconds*. Drop the candidates that it lacks.

        Drop candidates of the highest drop ranks, too,
        if the time is too short for the fewest rounds.
        """
        for candidate, took in seconds.items():
            if self.number:
                took = max(took, self._longest[candidate])
            self._longest[candidate] = took
        self.number += 1
        measured = finished.keys
        self.ranked = Ranking(pair for pair in self.ranked if pair[1].key in measured)
        if self.most is None and not self.has_fewest():
            most_seconds = (self.deadline - now) / (self.fewest - self.number)
            kept, _ = reduce(self.ranked, most_seconds, lambda c: self._longest[c])
            # A candidate that missed a round is not compared: more rounds of it would tell nothing.
            self.ranked = self.ranked.among(kept)
