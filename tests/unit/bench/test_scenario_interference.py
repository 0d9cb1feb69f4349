"""`interference`: batches come when they are due, a step's time is its own,
and a planted slowdown is found.
"""

import itertools
import os

import pytest

from ftbench.measure.neighbours import condition_ratios
from ftbench.plan.candidates import CONFIGS
from ftbench.plan.metrics import METRICS
from ftbench.rounds.controller import choose
from ftbench.scenarios import SCENARIOS
from ftbench.scenarios.interference import TrainingLoop

SCENARIO = SCENARIOS["interference"]


def test_who_is_compared():
    def of(quick: bool):
        candidates = [c for _, c in SCENARIO.plan.ranked(CONFIGS, SCENARIO.workers(4), quick)]
        assert {c.workers for c in candidates} == {3}  # the loop has the fourth CPU
        assert {c.case for c in candidates} == {"own", "shared"}
        return {(c.config, c.variant) for c in candidates}, SCENARIO.plan.pairs(candidates)

    few, pairs = of(quick=True)
    assert few == {("ft", "loader-thread"), ("gil", "loader-thread"), ("gil", "loader-process")}
    assert pairs[0].kind == "headline"
    # A slow machine leaves out a candidate, in both cases, and no case.
    slow, dropped = choose(
        SCENARIO.plan.ranked(CONFIGS, SCENARIO.workers(4), quick=True), 100.0, 10.0
    )
    assert {c.case for c in slow} == {"own", "shared"} and {c.key for c in dropped} == {
        "gil/loader-thread/3@own",
        "gil/loader-thread/3@shared",
    }
    every, _ = of(quick=False)
    assert every == set(itertools.product(CONFIGS, ("loader-thread", "loader-process")))


class Clock:
    """Time that passes only by steps and by waiting for batches."""

    def __init__(self, monkeypatch, step: float = 0.010):
        self.now, self.step_seconds, self.taken = 100.0, step, 0
        monkeypatch.setattr("ftbench.scenarios.interference.time.perf_counter", lambda: self.now)

    def every(self, seconds: float):
        """Batches, each of which has to be waited for so long."""
        for number in itertools.count():
            self.now += seconds
            self.taken += 1
            yield number

    def step(self) -> None:
        self.now += self.step_seconds


@pytest.mark.parametrize("period, batches", [(0.020, 50), (0.040, 25), (0.0025, 400)])
def test_batches_are_taken_when_they_are_due(monkeypatch, period, batches):
    clock = Clock(monkeypatch)
    times = TrainingLoop(clock.every(0.0), period, 0).run(clock.step, 1.0, period)
    assert times == pytest.approx([0.010] * len(times)) and len(times) == pytest.approx(100, abs=1)
    assert clock.taken == pytest.approx(batches, abs=4) and clock.now == pytest.approx(
        101.0, abs=0.02
    )


def test_waiting_is_no_part_of_a_step_and_is_not_made_up_for(monkeypatch):
    clock = Clock(monkeypatch)
    times = TrainingLoop(clock.every(0.500), 0.020, 0).run(clock.step, 5.0, 0.020)
    assert times == pytest.approx([0.010] * len(times))
    assert 5 <= clock.taken <= 11  # those that did not come in time are not taken all at once


def test_an_idle_turn_takes_no_batch_and_a_loading_turn_empties_the_queue_first(monkeypatch):
    clock = Clock(monkeypatch)
    loop = TrainingLoop(clock.every(0.0), 0.050, queued=4)
    assert loop.turn(clock.step, 0) == pytest.approx(0.010) and clock.taken == 0
    assert loop.turn(clock.step, 1) == pytest.approx(0.010)
    assert clock.taken == pytest.approx(4 + 6, abs=1)


def test_a_step_that_loading_makes_twice_as_long_is_found(monkeypatch):
    clock = Clock(monkeypatch)

    def batches():
        for number in itertools.count():
            clock.step_seconds = 0.020
            yield number

    loop = TrainingLoop(batches(), 0.050, queued=2)
    assert loop.turn(clock.step, 1) / Clock(monkeypatch).step_seconds == pytest.approx(2)


@pytest.mark.slow
def test_a_run(special):
    entry = special("interference")
    assert entry.case_axis == "CPUs" and entry.metrics == list(SCENARIO.metrics)
    assert all(METRICS[name].ideal == "1" for name in entry.metrics)
    for trial in entry.rounds[0].trials:
        assert condition_ratios(trial.condition_seconds)["metrics"] == pytest.approx(trial.metrics)


@pytest.mark.slow
def test_loop_and_workers_share_as_many_cpus_as_there_are_workers(run_trial, paths):
    before = os.sched_getaffinity(0)
    result = run_trial(
        "interference", "loader-thread", "shared", paths=paths, batch_size=2, batches=4, turns=1
    )
    assert result["metrics"]["slowdown_python"] > 0 and result["disturbance"]["own_cpus"] < 1.2
    assert os.sched_getaffinity(0) == before
