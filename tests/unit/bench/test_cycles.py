"""Which cycles leave, and what a trial's figures are without them."""

import pytest

from ftbench.document.model import Trial
from ftbench.machine.disturbance import Disturbance
from ftbench.plan.candidates import Candidate
from ftbench.report import run_words
from ftbench.rounds.cycles import disturbed, without
from tests.unit.bench import simulated

CPUS = 2


def load(
    other: float | None = 0.0, stolen: float | None = 0.0, throttled: float | None = 0.0
) -> Disturbance:
    return Disturbance(0.5, 1.5, other, stolen, throttled)


def trial(*loads: Disturbance, seconds: list[float] | None = None, **metrics: float) -> Trial:
    turns = seconds or [1.0] * len(loads)
    speed = {"throughput": 32 / sum(turns), **metrics}
    result = simulated.trial(Candidate("ft", "loader-thread", 2), speed, turn_seconds=turns)
    result.turn_loads = list(loads)
    return result


def test_others_cpu_time_and_steal_disturb_a_cycle_and_slowness_does_not():
    quiet = [load()] * 6
    a = trial(*quiet, seconds=[1.0, 9.0, 1.0, 9.0, 9.0, 1.0])
    b = trial(
        load(), load(other=0.11), load(), load(stolen=0.05), load(other=0.09, stolen=0.03), load()
    )
    assert disturbed([a], CPUS) == []
    assert disturbed([a, b], CPUS) == disturbed([b, a], CPUS) == [1, 3]
    # On more CPUs, the same load is a smaller part.
    assert disturbed([a, b], 8) == []


def test_what_a_quota_stops_is_the_trials_own_doing():
    assert disturbed([trial(*[load(throttled=0.4)] * 4)], CPUS) == []


def test_counters_that_cannot_be_read_disturb_nothing():
    assert disturbed([trial(*[load(None, None, None)] * 4)], CPUS) == []
    assert disturbed([trial(seconds=[1.0, 2.0])], CPUS) == disturbed([], CPUS) == []


def test_load_that_is_there_in_most_cycles_belongs_to_the_run():
    busy = load(other=1.0)
    assert disturbed([trial(busy, busy, load(), load())], CPUS) == [0, 1]
    assert disturbed([trial(busy, busy, busy, load())], CPUS) == []


def test_the_figures_without_some_turns():
    a = trial(
        load(),
        load(other=0.6),
        load(stolen=0.2),
        load(other=0.02),
        seconds=[1.0, 3.0, 4.0, 2.0],
        overhead_us=5.0,
        memory_mib=70.0,
        slowdown_torch=10.0 / 5.0,
    )
    a.condition_seconds = {"slowdown_torch": [[1.0, 3.0, 4.0, 2.0], [1.0, 1.0, 2.0, 1.0]]}
    left = without(a, [1, 2])
    assert left.metrics["throughput"] == pytest.approx(a.metrics["throughput"] * 2.5 / 1.5)
    assert left.metrics["overhead_us"] == pytest.approx(5.0 * 1.5 / 2.5)
    assert left.metrics["slowdown_torch"] == pytest.approx(1.5 / 1.0)
    assert left.metrics["memory_mib"] == 70.0
    # All turns stay on record.
    assert left.turn_seconds == a.turn_seconds and left.turns_left_out == [1, 2]
    assert (left.disturbance.other_cpus, left.disturbance.stolen_cpus) == (0.01, 0.0)


def test_reports_count_the_turns_that_do_not_count():
    (scenario,) = simulated.document(simulated.blank(), 1, rounds=3).scenarios
    assert run_words.limits(scenario) == []
    for one in scenario.rounds:
        for each in one.trials:
            each.turn_loads = [load()] * 4
    for each in scenario.rounds[1].trials:
        each.turns_left_out = [0, 2]
    number = len(scenario.candidates)
    said = f"{2 * number} of {12 * number} turns do not count: others took CPUs in their cycles."
    assert run_words.limits(scenario) == [said]
