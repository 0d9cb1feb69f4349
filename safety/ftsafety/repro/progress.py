"""Progress of the runs of a script, on stderr."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections import Counter

from ftrun.escape import one_line, terminal
from ftsafety.repro.outcome import Kind, Outcome


class ProgressPrinter:
    """Printer of progress: one changing line on a terminal,
    elsewhere a line for each run. Owned by one thread.
    """

    def __init__(self, stream=None):
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._begin = time.monotonic()
        self._counts: dict[str, Counter] = {}
        self._title = None

    def note(self, text: str) -> None:
        """Print a line that stays. Line breaks become spaces, so that a script cannot imitate a
        message of repro.
        """
        self.close()
        self._write(one_line(text) + "\n")

    def update(
        self, title: str, done: int, rounds: int, config: str, outcome: Outcome | None
    ) -> None:
        """Show the start (*outcome* is None) or end of a run in *config*,
        after *done* of all *rounds*.
        """
        if title != self._title:
            self._title, self._counts = title, {}
        if outcome is not None:
            self._counts.setdefault(config, Counter())[outcome.kind] += 1
        start = f"{terminal(title)} " if title else ""
        if self._terminal:
            running = "" if outcome else f"  running {config}"
            rounds_done = f"{done} of {rounds} rounds, {self._elapsed()}"
            self._replace_line(f"{start}{rounds_done}  {self._tallies()}{running}")
        elif outcome is not None:
            self._write(f"{start}round {done + 1} of {rounds}, {config}: {_end(outcome)}\n")

    def _replace_line(self, text: str) -> None:
        columns = shutil.get_terminal_size().columns
        self._write(f"\r\x1b[K{text[: columns - 1]}")

    def _elapsed(self) -> str:
        minutes, seconds = divmod(int(time.monotonic() - self._begin), 60)
        return f"{minutes}:{seconds:02}"

    def _tallies(self) -> str:
        return "  ".join(
            f"{config}: {_tally(counts)}" for config, counts in sorted(self._counts.items())
        )

    def close(self) -> None:
        """Erase the changing line."""
        if self._terminal:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal was closed; the report may go into a file
            self._stream.write(text)
            self._stream.flush()


def _end(outcome: Outcome) -> str:
    detail = f" ({one_line(outcome.detail)[:100]})" if outcome.detail else ""
    return f"{outcome.kind}{detail}, {outcome.seconds:.1f} s"


def _tally(counts: Counter) -> str:
    ok_first = sorted(counts.items(), key=lambda item: item[0] != Kind.OK)
    return ", ".join(f"{number} {kind}" for kind, number in ok_first)
