"""`interference`: the rates are what they say, and a step's time is the step's alone."""

import itertools
from statistics import median

import pytest

from ftbench.plan.candidates import CONFIGS
from ftbench.rounds.controller import choose
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.interference import IDLE, STEPS_PER_BATCH, _with_batches, note

SCENARIO = SCENARIOS["interference"]


def test_who_is_compared():
    ranked = SCENARIO.plan.ranked(CONFIGS, SCENARIO.workers(4), quick=True)
    candidates = [c for _, c in ranked]
    assert {c.workers for c in candidates} == {3}  # the loop has the fourth CPU
    assert {c.case for c in candidates} == {"idle", "half", "full"}
    pairs = SCENARIO.plan.pairs(candidates)
    # What the question is about comes first: a rate against idle, of the same candidate.
    slowed = [p for p in pairs if p.kind == "interference"]
    assert pairs[: len(slowed)] == slowed and len(slowed) == 2 * 6
    for pair in slowed:
        assert pair.numerator.replace("@full", "@idle").replace("@half", "@idle") == pair.denominator
    assert {p.kind for p in pairs} >= {"headline", "gil", "build", "method"}


def test_the_idle_loader_stays_as_long_as_the_full_rate():
    ranked = SCENARIO.plan.ranked(CONFIGS, SCENARIO.workers(2), quick=True)
    kept, _ = choose(ranked, seconds=4 * 7.5, trial_seconds=1.0)
    kinds = [p.kind for p in SCENARIO.plan.pairs(kept)]
    assert kinds.index("headline") >= 3 and set(kinds[: kinds.index("headline")]) == {"interference"}


class Clock:
    """Time that passes only by steps and by waiting for batches."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr("ftbench.scenarios.interference.time.perf_counter", lambda: self.now)

    def every(self, seconds: float):
        """Batches, each of which has to be waited for so long."""
        for number in itertools.count():
            self.now += seconds
            yield number

    def step(self) -> None:
        self.now += 0.010


@pytest.mark.parametrize("period, batches", [(0.020, 50), (0.040, 25), (0.0025, 400)])
def test_batches_are_taken_when_they_are_due(monkeypatch, period, batches):
    clock, taken = Clock(monkeypatch), []
    times = _with_batches(clock.step, 100, clock.every(0.0), period, 0.010, taken)
    assert times == pytest.approx([0.010] * 100) and len(taken) == pytest.approx(batches, abs=4)


def test_waiting_is_no_part_of_a_step_and_is_not_made_up_for(monkeypatch):
    clock, taken = Clock(monkeypatch), []
    times = _with_batches(clock.step, 100, clock.every(0.500), 0.020, 0.010, taken)
    assert times == pytest.approx([0.010] * 100)
    assert taken == pytest.approx([0.500] * len(taken)) and 50 <= len(taken) <= 100


def test_as_many_workers_as_cpus_are_told():
    assert note(1, 2) == "" and "2 workers and the loop share 2 CPUs" in note(2, 2)


@pytest.mark.slow
def test_a_run(special, special_run):
    entry = special("interference")
    assert SCENARIO.plan.cases[0].title in special_run.printed and entry.case_axis == "loading rate"
    steps = STEPS_PER_BATCH * entry.batches_per_worker
    for trial in entry.rounds[0].trials:
        found = {name: of.values for name, of in trial.distributions.items()}
        assert len(found["step"]) == len(found["step-alone"]) == steps
        assert trial.metrics["step_median_ms"] == pytest.approx(median(found["step"]), rel=1e-4)
        assert min(found["step"]) <= trial.metrics["step_median_ms"] <= trial.metrics["step_p99_ms"]
        (rate,), case = found["rate"], trial.candidate.partition("@")[2]
        assert (rate > 0) == ("taking" in found) == (case != IDLE.name)
