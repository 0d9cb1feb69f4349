"""Real runs: complete, reported again, interrupted, and with work that differs."""

import multiprocessing
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from ftbench.document.model import Results
from ftbench.document.store import load
from tests.processes import assert_gone, descendants, wait_until
from tests.programs import programs_to_end

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def record(finished_run) -> Results:
    return load(finished_run[1])


def test_complete_run(finished_run, record, twin):
    done, directory = finished_run
    assert load(directory / "results.json").status == "complete"
    assert sorted(p.name for p in directory.iterdir()) == [
        "report.html",
        "results.json",
        "summary.md",
        "waterfall.png",
    ]
    assert os.readlink(directory.parent / "latest") == directory.name
    (scenario,) = record.scenarios
    assert len(scenario.rounds) == 2
    keys = {
        f"{twin}/{variant}/1" for variant in ("torch-process", "loader-process", "loader-thread")
    }
    for one in scenario.rounds:
        assert {trial.candidate for trial in one.trials} == keys
        assert one.disturbance.before.affinity >= 1 and one.disturbance.seconds > 0
        for trial in one.trials:
            # The workers' start, the measured epoch and memory are real figures of real processes.
            turns = scenario.load.turns
            assert turns > 1 and len(trial.turn_seconds) == len(trial.turn_began) == turns
            assert sorted(trial.turn_began) == trial.turn_began
            assert trial.samples == 12 * turns and trial.batches == 6 * turns
            metrics = trial.metrics
            assert (
                metrics["throughput"] > 0
                and metrics["time_to_first_batch"] > 0
                and metrics["memory_mib"] > 50
            )
            assert 0.1 < metrics["cpu_per_1000"] < 1000
            assert trial.gil_enabled == (twin == "gil") and trial.disturbance.own_cpus > 0
    checksums = {(t.first_batch, tuple(t.rows)) for r in scenario.rounds for t in r.trials}
    assert len(checksums) == 1
    # Everybody's turns alternate: nobody has two before all have had one.
    began = sorted(
        (at, trial.candidate) for trial in scenario.rounds[0].trials for at in trial.turn_began
    )
    assert all({who for _, who in began[n : n + 3]} == keys for n in range(0, len(began), 3))
    (fall,) = record.waterfalls
    assert [step.candidate for step in fall.throughput.steps] == [
        f"{twin}/loader-process/1",
        f"{twin}/loader-thread/1",
    ]
    # The start method is that of the trials' own processes.
    (method,) = {
        t.start_method
        for r in scenario.rounds
        for t in r.trials
        if t.candidate == f"{twin}/torch-process/1"
    }
    assert method == multiprocessing.get_start_method()
    assert fall.throughput.start.name == f"torch DataLoader, processes ({method})"
    python = record.environment.twins[twin].interpreter
    assert python.twin == twin and python.config_args


def test_what_a_person_reads(finished_run, record):
    done, directory = finished_run
    # The answer first, and what to do; in the end the report's place.
    said = " ".join(done.stdout.split())
    assert (
        said.index("what changes factor samples/s")
        < said.index(" in all x ")
        < said.index("revision ")
    )
    assert said.index("Too little was measured to advise for pillow") < said.index(
        "what changes factor"
    )
    assert said.index("report: ") > said.index("revision ")
    assert f"report: {directory / 'report.html'}" in done.stdout
    build = next(iter(record.environment.twins.values())).interpreter.build
    assert build in done.stdout and build in (directory / "report.html").read_text()
    # No control codes where nobody looks at a terminal, and a line for each round.
    assert "\x1b" not in done.stdout + done.stderr
    assert re.findall(r"^round (\d) of 2:", done.stderr, re.M) == ["1", "2"]


def test_report_from_results_alone(finished_run, run_bench, tmp_path):
    done, directory = finished_run
    (tmp_path / "results.json").write_bytes((directory / "results.json").read_bytes())
    again = run_bench("report", tmp_path / "results.json", status=0)
    assert again.stdout.replace(str(tmp_path), "DIR") == done.stdout.replace(str(directory), "DIR")
    assert (tmp_path / "waterfall.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "report.html").exists()


class Started:
    def __init__(self, process: subprocess.Popen, log: Path):
        self.process, self.log = process, log

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.log.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None and text in self.log.read_text(), self.log.read_text()


@pytest.fixture
def started(environment, few, tmp_path):
    """Starts the run of a candidate with a worker process,
    and ends what a failed test leaves of it.
    """
    log = tmp_path / "log"

    with programs_to_end() as start, open(log, "w") as file:
        yield lambda *more, **options: Started(
            start(
                few(tmp_path / "out", "pillow=loader-process/1", *more, **options),
                env=environment,
                stderr=file,
            ),
            log,
        )


@pytest.mark.parametrize("ranks", [1, 2])
def test_interrupted_run_keeps_and_reports_its_finished_rounds(started, tmp_path, ranks):
    run = started("--rounds", 50, "--ranks", ranks)
    run.wait_for("round 1 of 50:")
    processes = descendants(run.process.pid)
    run.process.send_signal(signal.SIGINT)
    output, _ = run.process.communicate()
    assert run.process.returncode == 130
    assert_gone(processes)
    assert "INCOMPLETE: interrupted (SIGINT)" in output
    directory = (tmp_path / "out/latest").resolve()
    saved = load(directory / "results.json")
    assert saved.status == "incomplete" and len(saved.scenarios[0].rounds) >= 1
    assert "INCOMPLETE" in (directory / "report.html").read_text() and list(directory.glob("*.png"))


@pytest.mark.parametrize("signum, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_before_the_first_round_leaves_nothing(started, tmp_path, signum, status):
    run = started("--rounds", 3, warm_up=True)
    run.wait_for("warming up")
    processes = descendants(run.process.pid)
    run.process.send_signal(signum)
    output, _ = run.process.communicate()
    assert run.process.returncode == status
    assert_gone(processes)
    assert "no round was finished" in run.log.read_text()
    assert not (tmp_path / "out").exists()
    assert output == ""


def test_killed_run_leaves_no_process_and_what_was_finished(started, tmp_path):
    run = started("--rounds", 50)
    run.wait_for("round 1 of 50:")
    processes = descendants(run.process.pid)
    run.process.kill()
    run.process.wait()
    assert_gone(processes)
    (directory,) = [p for p in (tmp_path / "out").iterdir() if not p.is_symlink()]
    saved = load(directory / "results.json")
    assert saved.status == "incomplete" and len(saved.scenarios[0].rounds) >= 1


def test_a_failing_trial_is_named_with_its_last_words(started, photos, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for photo in photos.iterdir():
        (data / photo.name).write_bytes(photo.read_bytes())
    run = started("--rounds", 50, "--data", data)
    run.wait_for("round 1 of 50:")
    for photo in data.iterdir():
        photo.unlink()
    output, _ = run.process.communicate()
    assert run.process.returncode == 1
    said = run.log.read_text()
    assert "the trial of" in said and "FileNotFoundError" in said
    assert "INCOMPLETE: the trial of" in output
