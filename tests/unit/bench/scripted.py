"""Endpoints without processes behind them, for the tests of the controller, and what else a
measurement is given.
"""

import itertools
from abc import ABC, abstractmethod
from types import SimpleNamespace

from ftbench.document.model import Dataset, Load, Options
from ftbench.plan.candidates import CONFIGS
from ftbench.rounds.progress import Display
from tests.unit.bench import simulated


def options(*scenarios: str, **more: object) -> Options:
    usual = {
        "quick": True,
        "out": "out",
        "budget": 60.0,
        "workers": [2],
        "configs": [*CONFIGS],
        "twins": {},
    }
    return Options(scenarios=[*scenarios], **{**usual, **more})


def load(batch_size: int, batches_per_worker: int, turns: int = 1) -> Load:
    """The work of a case with samples of one byte."""
    return Load(
        sample_bytes=1,
        dataset=Dataset("none", "nothing", None, 0, 0, 0, None),
        batch_size=batch_size,
        batches_per_worker=batches_per_worker,
        turns=turns,
    )


class Script(ABC):
    """An endpoint whose trials give what `run` returns once they have had the turns
    that they were asked for.
    """

    name = "scripted"

    def __init__(self):
        self.ran: list[dict] = []
        """The requests of the trials that have begun, with their configuration."""
        self.events: list[tuple[str, int]] = []
        """(what a trial did, which in the order of imports): "import", "begin" (its warm-up),
        "turn" or "close".
        """
        self.imported = itertools.count()

    def start(self, request: dict) -> "ScriptedTrial":
        return ScriptedTrial(self, request)

    @abstractmethod
    def run(self, request: dict) -> dict:
        """What such a trial measured."""


class ScriptedTrial:
    def __init__(self, script: Script, request: dict):
        self._script = script
        self._request = request
        self._turns_left = request["turns"]
        self._place: int | None = None
        self._result: dict | None = None

    def go_on(self) -> dict | None:
        if self._place is None:
            self._place = next(self._script.imported)
            self._script.events.append(("import", self._place))
            return None
        if self._result is None:
            self._script.ran.append(self._request)
            self._result = {**simulated.TRIAL, "note": "", **self._script.run(self._request)}
            self._script.events.append(("begin", self._place))
            return None
        self._script.events.append(("turn", self._place))
        self._turns_left -= 1
        return None if self._turns_left else self._result

    def close(self) -> None:
        self._script.events.append(("close", self._place))


class Noted(Display):
    """A display that remembers its notes, and what a record would keep."""

    def __init__(self):
        self.results = SimpleNamespace(skipped=[], warnings=[])
        super().__init__(self.results)
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class Silent:
    def warm_up(self, *_) -> None:
        pass

    round = trial = round_done = note = warm_up
