"""What a person sees while the benchmark runs, on stderr.

On a terminal one line that is kept up to date; elsewhere one plain line for each step that
ends, without control codes.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ftbench.plan.contestants import Contestant
from ftrun.escape import terminal


def clock(seconds: float) -> str:
    """Seconds as 1:05, from an hour on as 1:02:05."""
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"


class Display:
    """The state of a run. Owned by the controller's thread."""

    def __init__(self, console: Console | None = None):
        console = console or Console(stderr=True)
        self._plain = not console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=self._plain,
        )
        self._task = self._progress.add_task("", total=None, left="")
        self._where, self._later = "", 0.0

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def note(self, text: str) -> None:
        """A line that stays."""
        self._progress.console.print(terminal(text), markup=False, highlight=False, soft_wrap=True)

    def _begin(self, title: str) -> None:
        self._progress.reset(self._task, total=None, description=title, left="")

    def scenario(self, name: str, number: int, of: int, later: float) -> None:
        """The next scenario begins; those after it are given `later` seconds."""
        self._where, self._later = (f"{name} ({number} of {of})", later) if of > 1 else ("", 0.0)
        if self._where:
            # "raw-size (3 of 20); 12:30 for those after it"
            self.note(self._where + (f"; {clock(later)} for those after it" if later else ""))

    def step(self, title: str) -> Callable[[int, int], None]:
        """Begin a step of known length; returns its progress callback (done, total)."""
        self._begin(title)

        def update(done: int, total: int) -> None:
            self._progress.update(self._task, total=total, completed=done, left=f"{done}/{total}")
            if self._plain and done == total:
                self.note(f"{title}: {total} done")

        return update

    def warm_up(self, contestant: Contestant) -> None:
        """A trial that is not counted begins."""
        if self._plain:
            self.note(f"warming up: {contestant.title}")
        self._begin(", ".join(filter(None, (self._where, f"warming up: {contestant.title}"))))

    def trial(
        self, number: int, rounds: int, share: float, of: int, contestant: Contestant, turn: int, remaining: float
    ) -> None:
        """A trial of the round's `of` begins, or one of its turns, 1, 2, ... (0: it is started).

        This `share` of the round's steps is done; `remaining` seconds are expected to be left of all rounds.
        """
        if self._plain and number == 1 and share == 0:
            about = f"about {rounds} rounds" if rounds != 1 else "one round"
            self.note(f"measuring: {of} trials a round, {about}, {self._left(remaining)}")
        where = (self._where, f"round {number} of {rounds}", contestant.title, f"turn {turn}" if turn else "")
        self._progress.update(
            self._task,
            total=rounds,
            completed=number - 1 + share,
            description=", ".join(filter(None, where)),
            left=f"{clock(remaining + self._later)} left",
        )

    def round_done(self, number: int, rounds: int, seconds: float, remaining: float) -> None:
        """A round has ended."""
        if self._plain:
            self.note(f"round {number} of {rounds}: {seconds:.0f} s, {self._left(remaining)}")

    def _left(self, remaining: float) -> str:
        """What is left of the scenario, and of the run if there is more to it."""
        whole = f", {clock(remaining + self._later)} of the run" if self._later else ""
        return f"{clock(remaining)} left{whole}"
