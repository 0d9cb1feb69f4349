"""What else the machine did: read from real and from written counters,
and marked only beyond the thresholds.
"""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ftbench.machine.alone import claimed
from ftbench.machine.disturbance import (
    Counters,
    Disturbance,
    about_machine,
    between,
    counters,
    cpu_times,
    marks,
    state,
    together,
)

TICK = os.sysconf("SC_CLK_TCK")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def test_cpu_times_are_those_of_the_cpus_that_may_be_used(tmp_path):
    write(
        tmp_path,
        {
            "stat": f"cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 {TICK} {TICK} {TICK} 9 9 {TICK} {TICK} "
            f"{2 * TICK} 0 0\n"
            f"cpu1 {7 * TICK} 0 0 0 0 0 0 0 0 0\nintr 5\nbtime 3\n"
        },
    )
    assert cpu_times({0}, tmp_path) == (5, 2)
    assert cpu_times({0, 1}, tmp_path) == (12, 2)
    assert cpu_times({5}, tmp_path) == (None, None)
    assert cpu_times({0}, tmp_path / "missing") == (None, None)
    write(tmp_path, {"stat": "cpu0 0 0 0 0 0 0 0 0 0 0\n"})  # a sandbox that counts nothing
    assert cpu_times({0}, tmp_path) == (None, None)


def test_what_the_trial_used_is_not_others(tmp_path):
    a = Counters(0.0, 100.0, 5.0, 1.0, 10.0)
    found = between(a, Counters(10.0, 120.0, 6.0, 1.5, 25.0))
    assert found == {
        "seconds": 10.0,
        "own_cpus": 1.5,
        "other_cpus": 0.5,
        "stolen_cpus": 0.1,
        "throttled_seconds": 0.5,
    }
    # Ticks are coarser than what the trial counts for itself;
    # counters that are not there say nothing.
    assert between(a, Counters(10.0, 114.9, 5.0, 1.0, 25.0))["other_cpus"] == 0
    nothing = between(Counters(0.0, None, None, None, 0.0), Counters(1.0, None, None, None, 1.0))
    assert (nothing["other_cpus"], nothing["stolen_cpus"], nothing["throttled_seconds"]) == (
        None,
        None,
        None,
    )
    assert marks(Disturbance(**nothing), 2) == []


@pytest.mark.slow
def test_real_counters_see_a_real_child_as_own(tmp_path):
    before = counters()
    subprocess.run([sys.executable, "-c", "sum(i * i for i in range(3_000_000))"], check=True)
    after = counters()
    assert after.used > before.used and after.at > before.at
    found = between(before, after)
    assert found["own_cpus"] > 0
    if before.busy is None:
        assert found["other_cpus"] is None
    else:
        assert after.busy >= before.busy and found["other_cpus"] >= 0


def test_marks_have_thresholds():
    quiet = Disturbance(
        100.0, own_cpus=1.9, other_cpus=0.1, stolen_cpus=0.04, throttled_seconds=1.0
    )
    assert marks(quiet, 2) == []
    assert marks(replace(quiet, other_cpus=0.11), 2) == ["other processes used 0.11 of 2 CPUs"]
    assert marks(replace(quiet, stolen_cpus=0.05), 2) == [
        "other virtual machines took 0.05 of 2 CPUs (steal time)"
    ]
    assert marks(replace(quiet, throttled_seconds=12.0), 1) == [
        "other processes used 0.10 of 1 CPU",
        "other virtual machines took 0.04 of 1 CPU (steal time)",
        "the control group's quota stopped it for 12.0 of 100 s",
    ]


def test_a_round_is_the_mean_of_its_trials():
    unseen = {"stolen_cpus": None, "throttled_seconds": None}
    trials = [
        {"seconds": 30.0, "own_cpus": 1.0, "other_cpus": 0.0, **unseen},
        {"seconds": 10.0, "own_cpus": 2.0, "other_cpus": 1.0, **unseen},
    ]
    assert together(trials) == {"seconds": 40, "own_cpus": 1.25, "other_cpus": 0.25, **unseen}


def test_the_state_of_this_machine_and_of_others(tmp_path):
    here = state()
    assert here.affinity == len(os.sched_getaffinity(0)) and len(here.load) == 3
    governors = {f"cpu{n}/cpufreq/scaling_governor": "powersave\n" for n in os.sched_getaffinity(0)}
    laptop, virtual = state(write(tmp_path, governors)), state(tmp_path / "virtual")
    assert (laptop.governor, virtual.governor) == ("powersave", None)
    assert any("governor powersave" in text for text in about_machine(laptop))
    assert about_machine(replace(virtual, quota=1.5, affinity=8)) == [
        "the control group leaves 1.5 of 8 CPUs: more threads than that are stopped together for "
        "the rest of each period"
    ]
    assert about_machine(replace(virtual, quota=None)) == []


def test_another_run_is_noticed(tmp_path):
    """By its name, also where there is no folder yet; and in another network namespace by the
    folder of its results.
    """
    name, missing = f"\0ft-bench-test-{os.getpid()}", tmp_path / "missing"
    for first, second in (
        ((missing, name), (missing, name)),
        ((tmp_path, name), (tmp_path, f"{name}-elsewhere")),
    ):
        for _ in range(2):
            with claimed(*first) as alone, claimed(*second) as both:
                assert alone and not both
    assert not missing.exists() and [*tmp_path.iterdir()] == []
