"""The record of a scenario's finished rounds, and the warnings that a round gives cause for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ftbench.document import model
from ftbench.machine import disturbance
from ftbench.plan.candidates import Candidate, listed
from ftbench.plan.scenario import Scenario
from ftbench.rounds.controller import Controller, failures
from ftbench.rounds.progress import Display
from ftrun import host


@dataclass
class Recorder:
    """Recorder of the rounds of one scenario. Only `add` changes the record.
    Used by the main thread only.
    """

    scenario: Scenario
    record: model.MeasuredScenario
    """The record of the scenario, for results.json."""
    controller: Controller
    display: Display
    cases: set[str]
    """Names of the cases that were planned, for messages."""
    budget: float
    """Seconds of the whole run, for messages."""
    repeats: bool
    """False if it is known, and was reported, that loading the
    same samples twice gives different samples.
    """
    _repeated: set[Candidate] = field(default_factory=set)
    """Candidates whose second try was reported."""
    _differences_reported: bool = False
    _compared: Sequence[Candidate] = ()
    """Candidates that were in every round so far. Only these are compared."""

    def __post_init__(self) -> None:
        self._compared = self.record.candidates

    def add(self, finished: model.Round) -> None:
        """Add a finished round to the record, with the failures and notes so far."""
        measured = finished.keys
        self._warn_of_differences()
        self._warn_of_second_tries(finished.number, measured)
        self._note_disturbance(finished)
        self._skip_dropped(finished.number, measured)
        failed = self.controller.failed
        self._compared = [c for c in self._compared if c.key in measured]
        self.record.rounds.append(finished)
        self.record.note = joined(self.controller.notes)
        self.record.pairs = self.scenario.plan.pairs(self._compared)
        self.record.failures = [failed[c] for c in self.record.candidates if c in failed]

    def _warn_of_differences(self) -> None:
        differences = self.controller.differences
        if not differences or not self.repeats or self._differences_reported:
            return
        self._differences_reported = True
        self.display.warn(
            f"not all candidates gave the same samples: {differences[0].split('. ')[0]}. Either "
            "the dataset draws random numbers, or it is not safe under threads: "
            f"{host.audit(self.scenario.case('').parameters['target'])} tells"
        )

    def _warn_of_second_tries(self, number: int, measured: set[str]) -> None:
        for candidate, failure in self.controller.repeated.items():
            if candidate.key in measured and candidate not in self._repeated:
                self._repeated.add(candidate)
                why = (
                    f"{failures({candidate: failure})}; in round {number} a second one took "
                    f"its place"
                )
                self.display.warn(f"{self.scenario.name}: {why}")

    def _note_disturbance(self, finished: model.Round) -> None:
        if marks := disturbance.marks(finished.disturbance, finished.disturbance.before.affinity):
            self.display.note(
                f"disturbed: {self.scenario.name}, round {finished.number}: {', '.join(marks)}"
            )

    def _skip_dropped(self, number: int, measured: set[str]) -> None:
        """Record the candidates that the time did not suffice for from this round on."""
        failed = self.controller.work.measured(self.controller.failed)
        dropped = [c for c in self._compared if c.key not in measured and c not in failed]
        if dropped:
            why = f"given up in round {number}: not all would fit into {self.budget:.0f} s"
            self.display.skip(f"{self.scenario.name}: {listed(dropped, self.cases)}", why)


def joined(notes: Iterable[str]) -> str:
    """Join the notes of trials with "; ", and leave out any note that is part of another note."""
    notes = list(filter(None, notes))
    whole = []
    for note in notes:
        if not any(note != other and note in other for other in notes):
            whole.append(note)
    return "; ".join(whole)
