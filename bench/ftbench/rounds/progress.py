"""The output of a run on stderr: progress, notes and warnings.

On a terminal, progress is one line that is kept up to date. Elsewhere, plain lines without control
codes are printed: one for each finished step, and one about every ten seconds.
"""

import itertools
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ftbench.document.model import Results, SkippedPart
from ftbench.plan.candidates import Candidate
from ftrun.escape import terminal

# Off a terminal, a line is printed about this often.
SECONDS = 10.0


def clock(seconds: float) -> str:
    """Format seconds as minutes and seconds, 1:05, or as hours, minutes and seconds, 1:02:05."""
    minutes, seconds = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{seconds:02}"
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


class Display(Progress):
    """Display of a run's progress and notes, a context manager.
    Used by the controller's thread only.
    """

    def __init__(self, results: Results, console: Console | None = None):
        console = console or Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._results = results
        """The record, which keeps the skipped parts and the warnings."""
        self._plain = not console.is_terminal
        title = TextColumn("{task.description}", markup=False)
        columns = (
            title,
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),
        )
        super().__init__(*columns, console=console, transient=True, disable=self._plain)
        self._task = self.add_task("", total=None, left="")
        self._where, self._later = "", 0.0
        self._noted = time.monotonic()
        self._explained = False  # what ft-gil is

    def note(self, text: str) -> None:
        """Print a line that stays on the terminal. It is not recorded in results.json."""
        self._noted = time.monotonic()
        self.console.print(terminal(text), soft_wrap=True)

    def skip(self, what: str, why: str) -> None:
        """Show that a part of the plan is not measured, with the reason,
        and record both in results.json.
        """
        self._results.skipped.append(SkippedPart(what, why))
        self.note(f"left out: {what}: {why}")

    def warn(self, text: str) -> None:
        """Show a warning about the run's results, and record it in results.json."""
        self._results.warnings.append(text)
        self.note(f"warning: {text}")

    def _still(self, text: str) -> None:
        """Print *text*, the progress so far, unless on a terminal
        or within SECONDS of the last line.
        """
        if self._plain and time.monotonic() - self._noted >= SECONDS:
            self.note(text)

    def _begin(self, title: str) -> None:
        self.reset(self._task, total=None, description=title, left="")

    def scenario(self, name: str, number: int, of: int, later: float) -> None:
        """Show the start of scenario `number` of *of*. `later`: seconds reserved for all the
        scenarios after it.
        """
        self._where, self._later = "", 0.0
        if of > 1:
            self._where = f"{name} ({number} of {of})"
            self._later = later
            # "raw-size (3 of 20); 12:30 for those after it"
            words = self._where
            if later:
                words += f"; {clock(later)} for those after it"
            self.note(words)

    def step(self, title: str) -> Callable[[int, int], None]:
        """Show the start of the work `title`; return the function to call with (done, total) as the
        work goes on.
        """
        self._begin(title)

        def update(done: int, total: int) -> None:
            self.update(self._task, total=total, completed=done, left=f"{done}/{total}")
            if self._plain and done == total:
                self.note(f"{title}: {total} done")
            else:
                self._still(f"{title}: {done} of {total}")

        return update

    def warm_up(self, candidate: Candidate) -> None:
        """Show the start of a warm-up trial, which is not counted."""
        if self._plain:
            self.note(f"warming up: {candidate.title}")
        self._begin(", ".join(filter(None, (self._where, f"warming up: {candidate.title}"))))

    def round(self, number: int, rounds: int, turns: Mapping[Candidate, int], end: float) -> None:
        """Show the start of a round; all rounds are expected to end at `end` (time.monotonic())."""
        self._number = number
        self._rounds = rounds
        self._turns = turns
        self._end = end
        self._steps = itertools.count()
        if self._plain and number == 1:
            about = "one round"
            if rounds != 1:
                about = f"about {rounds} rounds"
            self.note(
                f"measuring: {len(turns)} trials a round, {about}, {self._left(self._remaining())}"
            )
            if not self._explained and any(candidate.config == "ft-gil" for candidate in turns):
                self._explained = True
                self.note("ft-gil: the free-threaded Python with its GIL on")

    def trial(self, candidate: Candidate, turn: int) -> None:
        """Show the start of a trial (turn 0) or of one of its turns (1, 2, ...)."""
        if turn and self._turns[candidate] == 1:
            return  # its start was shown
        # The start of a trial, and each of its turns if there are several.
        steps = len(self._turns) + sum(turns for turns in self._turns.values() if turns > 1)
        where = [f"round {self._number} of {self._rounds}", candidate.title]
        if turn:
            where.append(f"turn {turn}")
        self._still(", ".join([*where, self._left(self._remaining())]))
        self.update(
            self._task,
            total=self._rounds,
            completed=self._number - 1 + next(self._steps) / steps,
            description=", ".join(filter(None, [self._where, *where])),
            left=f"{clock(self._remaining() + self._later)} left",
        )

    def _remaining(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def round_done(self, number: int, rounds: int, seconds: float, remaining: float) -> None:
        """Show the end of a round, which took `seconds`;
        `remaining` seconds are left for the scenario.
        """
        if self._plain:
            self.note(f"round {number} of {rounds}: {seconds:.0f} s, {self._left(remaining)}")

    def _left(self, remaining: float) -> str:
        """Return the time left in words: for the scenario,
        and for the run if it has more scenarios.
        """
        words = f"{clock(remaining)} left"
        if self._later:
            words += f", {clock(remaining + self._later)} of the run"
        return words
