"""What every trial shares, wherever it runs: its first line of stdin, its answers, how it failed."""

from __future__ import annotations

import json
import os

from ftrun.child_process import Outcome

# No trial takes minutes; one that does is stuck. A scenario may be less patient.
TIMEOUT_SECONDS = 300.0


def encode(request: dict) -> bytes:
    """The first line of a trial's stdin. The parent's id lets the trial die with the process that started it."""
    return json.dumps({**request, "parent": os.getpid()}).encode() + b"\n"


class TrialFailed(Exception):
    """A trial did not measure; the message says how it ended and quotes its last words."""


def how_it_ended(outcome: Outcome) -> str:
    """A process's end in words: "exit status 1", "killed by signal 9 (out of memory?)"."""
    if outcome.returncode >= 0:
        return f"exit status {outcome.returncode}"
    how = f"killed by signal {-outcome.returncode}"
    if outcome.returncode == -7:
        how += " (bus error: /dev/shm is full; enlarge it with --shm-size, SHM_SIZE in compose)"
    if outcome.returncode == -9:
        how += " (out of memory?)"
    return how


def decode(line: bytes) -> dict:
    """A line of a trial's stdout; raises TrialFailed if it is none of its own."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise TrialFailed(f"its stdout has a line that is none of its own: {line[:80]!r}") from error
