"""Progress of the runs of a script, on stderr."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections import Counter

from ftrun.escape import one_line, terminal
from ftsafety.repro.outcome import Kind, Outcome


class Progress:
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
        elapsed = int(time.monotonic() - self._begin)
        start = f"{terminal(title)}{' ' if title else ''}"
        if self._terminal:
            text = f"{start}{done} of {rounds} rounds, {elapsed // 60}:{elapsed % 60:02}  "
            text += "  ".join(
                f"{name}: {_tally(counts)}" for name, counts in sorted(self._counts.items())
            )
            running = "" if outcome else f"  running {config}"
            self._write("\r\x1b[K" + (text + running)[: shutil.get_terminal_size().columns - 1])
        elif outcome is not None:
            detail = f" ({one_line(outcome.detail)[:100]})" if outcome.detail else ""
            self._write(
                f"{start}round {done + 1} of {rounds}, {config}: {outcome.kind}{detail}, "
                f"{outcome.seconds:.1f} s\n"
            )

    def close(self) -> None:
        """Erase the changing line."""
        if self._terminal:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal was closed; the report may go into a file
            self._stream.write(text)
            self._stream.flush()


def _tally(counts: Counter) -> str:
    ok_first = sorted(counts.items(), key=lambda item: item[0] != Kind.OK)
    return ", ".join(f"{number} {kind}" for kind, number in ok_first)
