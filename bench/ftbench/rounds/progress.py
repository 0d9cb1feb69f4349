"""What a person sees while the benchmark runs, on stderr.

On a terminal one line that is kept up to date; elsewhere one plain line for each step that
ends, without control codes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ftbench.plan.contestants import Contestant


def clock(seconds: float) -> str:
    """Seconds as 1:05, from an hour on as 1:02:05."""
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


def scenario_of(name: str, number: int, of: int, later: float) -> str:
    """The line above a scenario: "raw-size (3 of 20); 12:30 for those after it"."""
    return f"{name} ({number} of {of})" + (f"; {clock(later)} for those after it" if later else "")


class TerminalDisplay:
    """A status line on a terminal. Owned by the controller's thread."""

    def __init__(self, console: Console):
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("", total=None, left="")
        self._where, self._later = "", 0.0

    def __enter__(self) -> TerminalDisplay:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        """A line that stays."""
        self._progress.console.print(text, markup=False, highlight=False)

    def scenario(self, name: str, number: int, of: int, later: float) -> None:
        """The next scenario begins; those after it are given `later` seconds."""
        self._where, self._later = (f"{name} ({number} of {of}), ", later) if of > 1 else ("", 0.0)
        if of > 1:
            self.note(scenario_of(name, number, of, later))

    def step(self, title: str) -> Callable[[int, int], None]:
        """Begin a step of known length; returns its progress callback (done, total)."""
        self._progress.reset(self._task, total=None, description=title, left="")

        def update(done: int, total: int) -> None:
            self._progress.update(self._task, total=total, completed=done, left=f"{done}/{total}")

        return update

    def warm_up(self, contestant: Contestant) -> None:
        description = f"{self._where}warming up: {contestant.title}"
        self._progress.reset(self._task, total=None, description=description, left="")

    def trial(
        self, number: int, rounds: int, share: float, of: int, contestant: Contestant, turn: int, remaining: float
    ) -> None:
        self._progress.update(
            self._task,
            total=rounds,
            completed=number - 1 + share,
            description=f"{self._where}round {number} of {rounds}, {contestant.title}"
            + (f", turn {turn}" if turn else ""),
            left=f"{clock(remaining + self._later)} left",
        )

    def round_done(self, number: int, rounds: int, seconds: float, remaining: float) -> None:
        pass


class PlainDisplay:
    """Lines for logs and pipes. Owned by the controller's thread."""

    def __init__(self) -> None:
        self._later = 0.0

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def note(self, text: str) -> None:
        """A line."""
        print(text, file=sys.stderr, flush=True)

    def scenario(self, name: str, number: int, of: int, later: float) -> None:
        """The next scenario begins; those after it are given `later` seconds."""
        self._later = later if of > 1 else 0.0
        if of > 1:
            self.note(scenario_of(name, number, of, later))

    def step(self, title: str) -> Callable[[int, int], None]:
        """Begin a step; returns a callback that says when it has ended."""

        def update(done: int, total: int) -> None:
            if done == total:
                self.note(f"{title}: {total} done")

        return update

    def warm_up(self, contestant: Contestant) -> None:
        self.note(f"warming up: {contestant.title}")

    def trial(
        self, number: int, rounds: int, share: float, of: int, contestant: Contestant, turn: int, remaining: float
    ) -> None:
        if number == 1 and share == 0:
            about = f"about {rounds} rounds" if rounds != 1 else "one round"
            self.note(f"measuring: {of} trials a round, {about}, {self._left(remaining)}")

    def round_done(self, number: int, rounds: int, seconds: float, remaining: float) -> None:
        self.note(f"round {number} of {rounds}: {seconds:.0f} s, {self._left(remaining)}")

    def _left(self, remaining: float) -> str:
        """What is left of the scenario, and of the run if there is more to it."""
        whole = f", {clock(remaining + self._later)} of the run" if self._later else ""
        return f"{clock(remaining)} left{whole}"


def display() -> TerminalDisplay | PlainDisplay:
    """The display that suits stderr."""
    console = Console(stderr=True)
    return TerminalDisplay(console) if console.is_terminal else PlainDisplay()
