"""A run of several scenarios: what it says of those it did not come to,
of options, and of its time.
"""

import io
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from ftbench.document.model import Results, SkippedPart
from ftbench.document.store import RunDirectory
from ftbench.plan import shortest, sizing
from ftbench.plan.candidates import Candidate
from ftbench.rounds import progress, recorder, run
from ftbench.scenarios import SCENARIOS
from ftrun.interruption import Interruption
from tests.unit.bench.scripted import options


@pytest.fixture
def suite(tmp_path: Path):
    """Builds a run of pillow, contention and memory that has not begun."""

    def build(**more) -> run.Run:
        chosen = [SCENARIOS[name] for name in ("pillow", "contention", "memory")]
        results = Results(options(*(scenario.name for scenario in chosen), budget=1000.0, **more))
        with Interruption() as interruption:
            return run.Run(
                results, chosen, RunDirectory(tmp_path), interruption, progress.Display(results)
            )

    return build


def test_what_a_run_did_not_come_to_is_said(suite):
    this = suite()
    this.ended.add("pillow")  # it was not available, say
    # some of its rounds are there
    this.results.scenarios.append(SimpleNamespace(name="contention"))
    this.stop("interrupted (SIGINT)")
    assert this.results.skipped == [
        SkippedPart("memory", "the run ended before its first round had: interrupted (SIGINT)")
    ]


def test_options_that_mean_nothing_to_a_scenario_are_named(suite, capsys):
    this = suite(batch_size=8, data="photos")
    this.warn_of_options()
    err = capsys.readouterr().err
    assert "--data is for images, and changes nothing in contention, memory" in err
    assert "--batch-size is for what loads batches, and changes nothing in contention" in err


def test_later_scenarios_share_what_is_left_as_they_need(suite):
    this = suite()
    shares = [SCENARIOS[name].share(True) for name in ("pillow", "contention", "memory")]
    always, for_each = shortest.REPORT_SECONDS
    whole = 1000.0 - always - 3 * for_each
    assert this._later(0) == pytest.approx(whole * sum(shares[1:]) / sum(shares), rel=0.05)
    assert this._later(2) == 0.0
    assert suite(rounds=3)._later(0) == 0.0


@pytest.fixture
def budgets(suite, monkeypatch):
    """Runs pillow, contention and memory with a budget; there is no time for the scenarios
    *without*, if it is kept.
    """

    def measured(budget: float, *without: str) -> run.Run:
        this = suite()
        this.results.options.budget = budget

        class Measured:
            def __init__(self, scenario, *_, left):
                self.name, self.kept = scenario.name, left is not None and left() < budget

            def rounds(self, *_):
                if self.kept and self.name in without:
                    raise sizing.BudgetTooShort("3 rounds need more")
                yield SimpleNamespace(name=self.name, rounds=[None])

        monkeypatch.setattr(run, "Measurement", Measured)
        monkeypatch.setattr(run, "Sources", lambda *_: SimpleNamespace(get=lambda name: None))
        monkeypatch.setattr(this, "save", lambda: None)
        monkeypatch.setattr(run, "from_json", lambda *_: None)
        this.measure()
        return this

    return measured


def test_scenarios_for_which_no_time_is_left_are_left_out_with_the_reason(budgets):
    this = budgets(500.0, "contention")
    assert this.results.skipped == [SkippedPart("contention", "3 rounds need more")]
    assert [entry.name for entry in this.results.scenarios] == ["pillow", "memory"]
    assert this.results.status == "complete"


def test_a_run_with_no_time_for_its_first_scenario_is_refused(budgets):
    with pytest.raises(sizing.BudgetTooShort):
        budgets(500.0, "pillow")


def test_the_budget_of_the_scenarios_themselves_is_no_limit(budgets):
    whole = sum(SCENARIOS[name].share(True) for name in ("pillow", "contention", "memory"))
    assert budgets(whole, "pillow", "memory").results.skipped == []


def test_progress_tells_the_time_of_the_whole_run(capsys):
    display = progress.Display(None)
    display.scenario("pillow", 1, 3, 3725.0)
    display.round_done(2, 4, 20.0, 40.0)
    display.scenario("memory", 3, 3, 0.0)
    display.round_done(2, 4, 20.0, 40.0)
    assert capsys.readouterr().err.splitlines() == [
        "pillow (1 of 3); 1:02:05 for those after it",
        "round 2 of 4: 20 s, 0:40 left, 1:02:45 of the run",
        "memory (3 of 3)",
        "round 2 of 4: 20 s, 0:40 left",
    ]


def test_notes_that_others_hold_are_said_once():
    assert (
        recorder.joined(
            ["no GPU here", "", "no GPU here, and 2 workers share 2 CPUs", "CPU backend"]
        )
        == "no GPU here, and 2 workers share 2 CPUs; CPU backend"
    )


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
    wanted = [
        "round 1 of 3, ft loader threads x2",
        "round 1 of 3, ft loader threads x2, turn 1",
        "making: 1 of 3",
    ]
    assert between == (wanted if shown else [])
