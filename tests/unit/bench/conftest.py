"""Real images and real runs of the command, made once for all tests that look at them."""

import os
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ftbench.data import synthesis
from ftbench.document.model import MeasuredScenario, Results
from ftbench.document.store import RunDirectory, load
from ftbench.measure import gpu
from ftbench.stats.analysis import Analysis, analyse
from ftbench.trial.process import TrialProcess
from tests.processes import assert_gone
from tests.programs import completed
from tests.unit.bench import documents, simulated
from tests.unit.bench.clusters import Cluster
from tests.unit.bench.reports import Page, page_of
from tests.unit.bench.turns import task_of, to_its_end


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with six JPEGs of the scenario's size."""
    directory = tmp_path_factory.mktemp("photos")
    for number in range(6):
        synthesis.photograph(number).save(
            directory / f"{number}.jpg", "JPEG", **synthesis.JPEG_SETTINGS
        )
    return directory


@pytest.fixture(scope="session")
def paths(photos: Path) -> list[str]:
    """The paths of these JPEGs."""
    return sorted(map(str, photos.iterdir()))


@pytest.fixture(scope="session")
def finished_run(run_bench, photos: Path, twin: str, tmp_path_factory: pytest.TempPathFactory):
    """(CompletedProcess, the run's directory) of a real run:
    one configuration, one worker, two rounds.

    It takes half a minute. It is for tests of running (test_run, full disks): what is made of a
    record is tested with the simulated `document` and `many`.
    """
    out = tmp_path_factory.mktemp("results")
    amount = ["--quick", "--rounds", 2, "--workers", 1, "--batch-size", 2, "--budget", 1]
    done = run_bench("pillow", *amount, "--data", photos, "--out", out, "--configs", twin, status=0)
    return done, (out / "latest").resolve()


@pytest.fixture(scope="session")
def document() -> Results:
    """The record of a simulated run of two rounds, for tests of what is made of a record.
    Not to be changed.
    """
    return simulated.document(simulated.blank(), seed=0, rounds=2)


@pytest.fixture
def saved_run(document: Results, tmp_path: Path) -> Path:
    """The directory of the simulated run, with its results.json alone."""
    directory = RunDirectory(tmp_path / "results")
    directory.save(document)
    assert directory.directory
    return directory.directory


@pytest.fixture(scope="session")
def many(twin: str) -> Analysis:
    """A simulated run with a scenario of each kind."""
    run = simulated.document(simulated.blank(twin), seed=1, rounds=2)
    run.options.data = "/photos"
    return analyse(documents.many(run))


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """An empty shared folder for the runs of a cluster's nodes."""
    return Cluster(simulated.blank(), tmp_path / "shared")


@pytest.fixture(scope="session")
def page(many) -> Page:
    return page_of(many)


@pytest.fixture(scope="session")
def few(command, photos: Path, twin: str):
    """Builds the command of a short run: ``few(out,
    "pillow=loader-process/1", ...)`` (tests.unit.bench.few).
    """

    def build(
        out: Path, plan: str, *more: object, workers: int = 1, warm_up: bool = False
    ) -> list[str]:
        name = plan.partition("=")[0]
        which = [] if name == "dataset" else [name, "--data", photos, "--batch-size", 2]
        usual = ["--quick", "--out", out, "--configs", twin, "--workers", workers, "--budget", 1]
        plans = [*(["--warm-up"] if warm_up else []), plan]
        return command(*plans, "--", *which, *usual, *more, module="tests.unit.bench.few")

    return build


@pytest.fixture(scope="session")
def special_plans(twin: str) -> dict[str, list[str]]:
    """Scenarios that measure in their own way, each with a few candidates, which have to agree."""
    workers = "loader-thread/2" if twin == "ft" else "loader-process/2"
    others = ["spdl/2", "loop/2"] if twin == "ft" else ["torch-process/2", "loader-thread/2"]
    return {
        "overlap": ["loader-thread/2@1", "serial/0@1"],
        "contention": ["bare-thread/2@pages"],
        "interference": ["loader-thread/2@own", "loader-thread/2@shared"],
        "cache": ["loader-thread/2"],
        "training": [workers, "serial/0" if twin == "ft" else "loader-thread/2"],
        "augment": [f"{workers}@heavy", f"{workers}@light", "serial/0@heavy", "serial/0@light"],
        "nvimgcodec-decode": ["loader-thread/2"],
        "latency-requests": [f"{workers}@50-ms"],
        "raw-cache": ["loader-thread/2@cold"],
        "peers-pillow-128": [workers, "nodes-thread/2", *others],
    }


@pytest.fixture(scope="session")
def special_run(special_plans, command, environment, photos: Path, twin: str, tmp_path_factory):
    """A run of the special scenarios, of one round: its record, what was printed, its directory.
    Nothing runs on.
    """
    out, mark = tmp_path_factory.mktemp("special"), uuid.uuid4().hex
    plans = [f"{name}={','.join(names)}" for name, names in special_plans.items()]
    usual = [
        "--quick",
        "--rounds",
        1,
        "--workers",
        2,
        "--batch-size",
        2,
        "--budget",
        1,
        "--tables",
        "--configs",
        twin,
    ]
    more = [*special_plans, *(["nvimgcodec-memory"] if gpu.why_none() else [])]
    done = completed(
        command(
            *plans,
            "--",
            *more,
            *usual,
            "--data",
            photos,
            "--out",
            out,
            module="tests.unit.bench.few",
        ),
        env={**environment, "FT_BENCH_TEST_RUN": mark},
        status=0,
    )
    # what outlives its trial is killed by the kernel, which takes a moment
    assert_gone(marked(mark))
    record = load(out / "latest/results.json")
    assert record.status == "complete"
    return SimpleNamespace(record=record, printed=done.stdout, directory=out / "latest")


@pytest.fixture
def special(special_run, special_plans):
    """Returns a special scenario's record, whose candidates gave the same samples;
    skips what this machine cannot.
    """

    def of(name: str) -> MeasuredScenario:
        for each in special_run.record.skipped:
            if each.what == name:
                pytest.skip(each.why)
        (entry,) = [each for each in special_run.record.scenarios if each.name == name]
        (only,) = entry.rounds
        assert len(entry.candidates) == len(only.trials) == len(special_plans[name])
        # A trial with fewer workers loads fewer batches.
        sums = {
            (t.candidate.partition("@")[2], len(t.rows)): (t.first_batch, t.rows)
            for t in only.trials
        }
        assert all(
            sums[t.candidate.partition("@")[2], len(t.rows)] == (t.first_batch, t.rows)
            for t in only.trials
        )
        return entry

    return of


@pytest.fixture
def run_trial(twin):
    """Runs one trial in a process of its own, as an endpoint does; returns its result."""

    def run(name: str, variant: str, case: str = "", **more: object) -> dict:
        usual = {"paths": [], "workers": 1, "warmup_batches": 1}
        task = task_of(name, variant=variant, case=case, config=twin, **{**usual, **more})
        return to_its_end(TrialProcess(sys.executable, task.request(), {}))

    return run


@pytest.fixture
def children():
    """All that was started since the test began.
    Earlier tests may have left multiprocessing's helpers.
    """
    before = set(psutil.Process().children(recursive=True))
    return lambda: [
        each for each in psutil.Process().children(recursive=True) if each not in before
    ]


def marked(mark: str) -> list[psutil.Process]:
    """The processes with this mark in their environment, this one left out."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("FT_BENCH_TEST_RUN") == mark:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
