"""Real trials that stand still between their turns: what they do then,
what is counted, and how they end.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from ftbench.plan.scenario import Task
from ftbench.scenarios import SCENARIOS
from ftbench.trial.process import TrialFailed, TrialProcess
from tests.processes import assert_gone

pytestmark = pytest.mark.slow


@pytest.fixture
def start(paths, twin):
    """Starts trials of two batches a turn; what is left of them ends with the test."""
    with contextlib.ExitStack() as stack:

        def build(
            turns: int, variant: str = "loader-process", watch=None, **more: object
        ) -> TrialProcess:
            task = Task(
                SCENARIOS["pillow"], paths, variant, 1, 2, 1, 2, 2, turns=turns, config=twin
            )
            trial = TrialProcess(sys.executable, {**task.request(), **more}, watch or {})
            return stack.enter_context(contextlib.closing(trial))

        yield build


def trials(started: list[psutil.Process]) -> list[psutil.Process]:
    """Of these, trials and their forked workers."""
    return [each for each in started if "ftbench.trial.child" in each.cmdline()]


def test_trials_of_a_run_hash_strings_alike(start, children, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", "random")  # as if it were not there
    trial = start(1, "loader-thread", hash_seed=123)
    assert trial.go_on() is None
    (process,) = trials(children())
    assert process.environ()["PYTHONHASHSEED"] == "123"


def test_the_turns_of_two_trials_alternate(start, children):
    a, b = start(2), start(2, "loader-thread")
    # Imports, warm-ups, then all turns but the last.
    assert [trial.go_on() for trial in (a, b, a, b, b, a)] == [None] * 6
    results = [a.go_on(), b.go_on()]
    for result in results:
        assert (result["batches"], result["samples"]) == (4, 8)
        # Two that are timed, one before and one after them.
        assert result["rows"][:4] == result["rows"][4:]
        assert len(result["turn_seconds"]) == len(result["turn_began"]) == 2
        # Samples over time, of all turns.
        assert result["metrics"]["throughput"] == pytest.approx(8 / sum(result["turn_seconds"]))
        assert len(result["turn_loads"]) == 2
    assert results[0]["rows"] == results[1]["rows"] and not children()
    # b had its first turn before a's, and a its last before b's.
    (a1, a2), (b1, b2) = (result["turn_began"] for result in results)
    assert b1 < a1 < a2 < b2


def test_the_load_of_each_turn_is_that_of_other_processes_in_it(start):
    trial = start(3, "loader-thread")
    for _ in range(3):  # imports, the warm-up, a turn
        assert trial.go_on() is None
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as burner:
        before = sum(psutil.Process(burner.pid).cpu_times()[:2])
        try:
            assert trial.go_on() is None
        finally:
            burned = sum(psutil.Process(burner.pid).cpu_times()[:2]) - before
            burner.kill()
    loads = trial.go_on()["turn_loads"]
    assert len(loads) == 3
    # All that the other process had, and what the rest of the machine did; the kernel counts in
    # ticks of 10 ms. The trial's own time is none of it: nobody can have had more than the CPUs.
    assert burned > 0 and loads[1]["other_cpus"] * loads[1]["seconds"] > burned - 0.05
    assert all(load["other_cpus"] + load["own_cpus"] < os.cpu_count() + 0.5 for load in loads)


def test_what_others_do_meanwhile_is_not_counted(start, children):
    trial = start(1, "loader-thread")
    assert trial.go_on() is None
    (process,) = trials(children())
    assert trial.go_on() is None
    before = sum(process.cpu_times()[:2])
    end = time.monotonic() + 2
    while time.monotonic() < end:  # another trial would be as busy
        pass
    assert sum(process.cpu_times()[:2]) - before < 0.2  # it stood still
    begin = time.monotonic()
    found = trial.go_on()["disturbance"]
    # The time of its turn, and its own use of the CPUs in it.
    assert found["seconds"] == pytest.approx(time.monotonic() - begin, abs=0.1)
    assert 0 < found["own_cpus"] < os.cpu_count() + 0.5


def test_a_trial_that_dies_while_it_waits_says_how(start, children):
    trial = start(2)
    assert [trial.go_on(), trial.go_on()] == [None] * 2
    for process in trials(children()):
        if process.ppid() == os.getpid():
            process.send_signal(signal.SIGKILL)
    with pytest.raises(TrialFailed, match="killed by signal 9"):
        trial.go_on()


def test_a_trial_that_hangs_is_ended(start, children):
    trial = start(1, patience=0.05)  # its imports take longer
    with pytest.raises(TrialFailed, match="it hangs, or did not end within 0 s"):
        trial.go_on()
    assert_gone(children())
