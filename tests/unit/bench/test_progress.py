"""Progress off a terminal: plain lines, also between the ends of rounds."""

import io
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from ftbench.plan.candidates import Candidate
from ftbench.rounds import progress


@pytest.mark.parametrize("seconds, shown", [(0.0, True), (3600.0, False)])
def test_a_long_round_is_not_silent(monkeypatch, seconds, shown):
    monkeypatch.setattr(progress, "SECONDS", seconds)
    out, candidate = io.StringIO(), Candidate("ft", "loader-thread", 2)
    display = progress.Display(SimpleNamespace(skipped=[], warnings=[]), Console(file=out))
    with display:
        display.round(1, 3, {candidate: 4}, time.monotonic() + 50)
        display.trial(candidate, 0)
        display.trial(candidate, 1)
        step = display.step("making")
        step(1, 3)
        step(3, 3)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("measuring: ") and lines[-1] == "making: 3 done"
    between = [line.partition(", 0:")[0] for line in lines[1:-1]]
    wanted = ["round 1 of 3, ft loader threads x2", "round 1 of 3, ft loader threads x2, turn 1", "making: 1 of 3"]
    assert between == (wanted if shown else [])
