"""Trials of several ranks: they share the work of one process, begin together, and end together."""

import contextlib
import os
import signal
import sys
import textwrap
import time

import psutil
import pytest

from ftbench.document.store import load
from ftbench.measure.checksums import by_batch
from ftbench.plan.scenario import Task, TrialError
from ftbench.scenarios import SCENARIOS, own
from ftbench.trial.job import together
from ftbench.trial.process import TrialFailed, TrialProcess
from tests.processes import assert_gone
from tests.programs import completed
from tests.unit.bench.turns import to_its_end

NUMBERS = """
    import os, signal
    import torch

    class Numbers:
        def __len__(self):
            return 64

        def __getitem__(self, index):
            if index == 6 and os.environ.get("RANK") == "1":
                self.happens()
            return torch.tensor([index])

    class Raises(Numbers):
        def happens(self):
            raise OSError("picture 6 cannot be read")

    class Killed(Numbers):
        def happens(self):
            os.kill(os.getpid(), signal.SIGKILL)

    class Leaves(Numbers):
        def happens(self):
            os._exit(0)

    class Exits(Numbers):
        def happens(self):
            raise SystemExit("enough")
"""


@pytest.fixture
def trial(paths, twin):
    """Starts trials of two batches a worker and turn; what is left of them ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(
            variant: str, scenario: str = "pillow", ranks: int = 2, **more: object
        ) -> TrialProcess:
            chosen = own.SCENARIO if scenario == "dataset" else SCENARIOS[scenario]
            task = Task(
                chosen, paths, variant, 1, 2, 2, 2, 2, turns=2, config=twin, ranks=ranks, **more
            )
            started = TrialProcess(sys.executable, task.request(), {})
            return stack.enter_context(contextlib.closing(started))

        yield start


@pytest.fixture
def numbers(trial, tmp_path):
    """Starts a trial of two ranks with a dataset of NUMBERS."""

    def start(name: str, variant: str = "loader-thread") -> TrialProcess:
        (tmp_path / "numbers_data.py").write_text(textwrap.dedent(NUMBERS))
        parameters = {"target": f"{tmp_path / 'numbers_data.py'}:{name}", "collate_fn": None}
        return trial(variant, "dataset", parameters=parameters)

    return start


@pytest.fixture(scope="module")
def alone() -> dict[str, dict]:
    """What one process loads, by scenario: the same, whichever variant loads it."""
    return {}


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant, scenario",
    [
        ("loader-thread", "pillow"),
        ("torch-process", "pillow"),
        ("loop", "peers-pillow-128"),
        ("serial", "augment@light"),
        pytest.param(
            "loader-spawn", "pillow", marks=pytest.mark.long(reason="each worker imports torch")
        ),
        ("loader-thread", "peers-shapes-ragged"),
    ],
)
def test_two_ranks_load_together_what_one_process_loads(trial, children, alone, variant, scenario):
    name, _, case = scenario.partition("@")
    more = {"case": case, "parameters": SCENARIOS[name].case(case).parameters}
    if scenario not in alone:
        alone[scenario] = to_its_end(trial(variant, name, 1, **more))
    one, two = alone[scenario], to_its_end(trial(variant, name, 2, **more))
    assert_gone(children())
    assert two["samples"] == 2 * one["samples"] and two["batches"] == 2 * one["batches"]
    assert len(two["rows"]) == 2 * len(one["rows"])
    # Batch by batch, and the ranks' batches go twice as far.
    batches = [by_batch(each["first_batch"], each["rows"], 2) for each in (one, two)]
    assert batches[0].items() <= batches[1].items()
    metrics = two["metrics"]
    assert all(0 < value for value in metrics.values()) and {"slowest_rank"} == {*metrics} - {
        *one["metrics"]
    }
    if "throughput" in metrics:
        assert metrics["slowest_rank"] < metrics["throughput"]
    if "memory_mib" in metrics:  # the ranks' and torchrun's
        assert metrics["memory_mib"] > 1.5 * one["metrics"]["memory_mib"]


@pytest.mark.slow
def test_ranks_are_torchruns_and_stand_still_between_turns(trial, children):
    started = trial("loader-process")
    assert [started.go_on(), started.go_on()] == [None] * 2
    ranks = [each for each in children() if "ftbench.trial.child" in each.cmdline()]
    variables = [
        {name: each.environ()[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")}
        for each in ranks
    ]
    assert sorted(variables, key=lambda each: each["RANK"]) == [
        {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)
    ]
    before = [sum(each.cpu_times()[:2]) for each in ranks]
    time.sleep(1)
    assert all(sum(each.cpu_times()[:2]) - used < 0.1 for each, used in zip(ranks, before))
    # The CPU time of all of them is this trial's own, not another program's.
    found = to_its_end(started)["disturbance"]
    assert found["own_cpus"] > 0


FAILURES = [
    ("Raises", "loader-thread", "rank 1 of 2: OSError: picture 6 cannot be read"),
    ("Raises", "torch-process", "rank 1 of 2: OSError: picture 6 cannot be read"),
    (
        "Killed",
        "loader-thread",
        r"rank 1 of 2 ended too early: killed by signal 9 \(out of memory\?\)",
    ),
    ("Killed", "torch-process", r"rank 1 of 2: RuntimeError: DataLoader worker \(pid"),
    ("Exits", "serial", "rank 1 of 2: SystemExit: enough"),
    ("Leaves", "serial", "rank 1 of 2 ended before its measurement did"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name, variant, why", FAILURES)
def test_a_rank_that_fails_ends_the_trial_with_its_reason(numbers, children, name, variant, why):
    started = numbers(name, variant)
    started.go_on()
    with pytest.raises(TrialFailed, match=f"^{why}") as failed:
        to_its_end(started)
    assert not failed.value.hung
    # its traceback
    assert ("numbers_data.py" in str(failed.value)) == (name in ("Raises", "Exits"))
    assert_gone(children())


@pytest.mark.slow
@pytest.mark.parametrize("at", ["import", "turn"])
def test_a_rank_that_is_killed_while_it_waits(trial, children, at):
    started = trial("loader-process")
    if at == "turn":
        assert [started.go_on(), started.go_on()] == [None] * 2
    (rank,) = [each for each in wait_for_ranks(children, 2) if each.environ()["RANK"] == "1"]
    rank.send_signal(signal.SIGKILL)
    with pytest.raises(TrialFailed, match="^rank 1 of 2 ended too early: killed by signal 9"):
        to_its_end(started)
    assert_gone(children())


def wait_for_ranks(children, number: int) -> list[psutil.Process]:
    """Wait for this number of ranks; return them."""
    deadline = time.monotonic() + 600
    while True:
        with contextlib.suppress(psutil.Error):
            found = [each for each in children() if "ftbench.trial.child" in each.cmdline()]
            if len(found) == number and all("RANK" in each.environ() for each in found):
                return found
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["close", "kill"])
def test_nothing_is_left_of_ranks_whose_controller_ends(trial, children, how):
    started = trial("torch-process")
    assert [started.go_on(), started.go_on()] == [None] * 2
    ended = children()
    assert len(ended) >= 3
    if how == "close":
        started.close()
    else:
        ended[0].send_signal(signal.SIGKILL)
    assert_gone(ended)


@pytest.mark.slow
def test_a_run_with_ranks(few, run_bench, environment, finished_run, tmp_path):
    out = tmp_path / "out"
    plan = few(out, "pillow=torch-process/1,loader-thread/1", "memory", "--ranks", 2, "--rounds", 1)
    cpu = min(os.sched_getaffinity(0))
    done = completed(
        plan, env=environment, status=0, preexec_fn=lambda: os.sched_setaffinity(0, {cpu})
    )
    record = load(out / "latest")
    assert record.status == "complete" and record.options.ranks == 2
    (entry,) = record.scenarios
    assert entry.ranks == 2 and entry.metrics[:2] == ["throughput", "slowest_rank"]
    assert [(each.what, each.why) for each in record.skipped] == [
        (
            "memory",
            "several ranks cannot measure it: it follows the memory of one process over an epoch",
        )
    ]
    said = " ".join(done.stdout.split())
    assert "Pillow on 2 ranks: " in said and ": 2 ranks of 1 worker each" in said
    assert "throughput of the slowest rank" in said and "2 ranks share 1 CPU:" in said
    page, summary = ((out / "latest" / name).read_text() for name in ("report.html", "summary.md"))
    for text in (page, summary):
        assert (
            "2 ranks, each a process with its own loader, workers and share of the batches" in text
        )
        assert "./twins bench pillow --quick --rounds 1 --workers 1 --ranks 2" in text.replace(
            "\\", ""
        )
    # Another number of ranks is other work.
    compared = run_bench("compare", finished_run[1], out / "latest")
    assert compared.returncode == 2
    assert "not the same work: number of ranks is 1 in A and 2 in B" in " ".join(
        compared.stdout.split()
    )


def result(turn_seconds: list[float], **more: object) -> dict:
    """A rank's result of 10 samples a turn."""
    metrics = {
        "throughput": 1.0,
        "overhead_us": 1.0,
        "cpu_per_1000": 2.0,
        "time_to_first_batch": 0.5,
        "memory_mib": 70.0,
    }
    turns = len(turn_seconds)
    usual = {
        "samples": 10 * turns,
        "batches": 5 * turns,
        "first_batch": 7,
        "rows": [1, 2],
        "metrics": metrics,
    }
    return {
        **usual,
        "turn_seconds": turn_seconds,
        "turn_began": [float(turn) for turn in range(turns)],
        **more,
    }


def test_results_of_ranks_are_one_result():
    other = {
        "throughput": 1.0,
        "overhead_us": 1.0,
        "cpu_per_1000": 4.0,
        "time_to_first_batch": 0.7,
        "memory_mib": 70.0,
    }
    # Each rank is fast while the other one is slow: the sum of a turn is what counts.
    found = together(
        [
            result([1.0, 2.0], others=[result([1.0])]),
            result([2.0, 1.0], rows=[3, 4], metrics=other, others=[result([3.0])]),
        ]
    )
    metrics = found["metrics"]
    assert metrics["throughput"] == pytest.approx(10 + 5) and metrics[
        "overhead_us"
    ] == pytest.approx(1e6 / 15)
    assert metrics["slowest_rank"] == pytest.approx(20 / 3)  # 20 samples in 1 + 2 s
    assert (metrics["time_to_first_batch"], metrics["cpu_per_1000"], metrics["memory_mib"]) == (
        0.7,
        3.0,
        70.0,
    )
    assert found["rows"] == [1, 3, 2, 4] and found["first_batch"] == 7
    assert (found["samples"], found["batches"]) == (40, 20)
    # All samples of a turn in its time: 20 in 4/3 s.
    assert found["turn_seconds"] == pytest.approx([4 / 3] * 2) and found["turn_began"] == [0.0, 1.0]
    (inside,) = found["others"]
    assert inside["metrics"]["throughput"] == pytest.approx(10 + 10 / 3)
    assert inside["metrics"]["slowest_rank"] == pytest.approx(10 / 3)


def test_what_ranks_cannot_measure_is_refused():
    with pytest.raises(TrialError, match="has no turns.*leave out --ranks"):
        together([result([]), result([])])
    strange = {"metrics": {"worker_setup": 1.0}}
    with pytest.raises(TrialError, match="cannot measure worker_setup"):
        together([result([1.0], **strange), result([1.0], **strange)])
