"""Real images and real runs of the command, made once for all tests that look at them."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pytest

from ftbench import cli
from ftbench.data import synthesis
from ftbench.document.model import Results, Scenario
from ftbench.document.store import load
from ftbench.plan.candidates import Candidate, Pair
from ftbench.plan.case import Case
from ftbench.plan.comparisons import ComparisonPlan
from ftbench.plan.scenario import Task
from ftbench.report import page as pages
from ftbench.scenarios import SCENARIOS
from ftbench.stats.analysis import Analysis, analyse
from ftbench.trial.process import TrialProcess
from tests.unit.bench import documents
from tests.unit.bench.reports import Page
from tests.unit.bench.turns import to_its_end


@pytest.fixture(scope="session")
def tiny(photos: Path, twin: str):
    """Builds the arguments of the smallest real run: one configuration, one worker, batches of two."""

    def build(out: Path, *more: object) -> list[object]:
        return [
            "pillow",
            "--quick",
            "--data",
            photos,
            "--out",
            out,
            "--configs",
            twin,
            "--workers",
            1,
            "--batch-size",
            2,
            *more,
        ]

    return build


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with six JPEGs of the scenario's size."""
    directory = tmp_path_factory.mktemp("photos")
    for number in range(6):
        synthesis.photograph(number).save(directory / f"{number}.jpg", "JPEG", **synthesis.JPEG_SETTINGS)
    return directory


@pytest.fixture(scope="session")
def finished_run(run_bench, tiny, tmp_path_factory: pytest.TempPathFactory):
    """(CompletedProcess, the run's directory) of a complete run of two rounds."""
    out = tmp_path_factory.mktemp("results")
    done = run_bench(*tiny(out, "--rounds", 2))
    assert done.returncode == 0, done.stderr
    return done, (out / "latest").resolve()


@pytest.fixture
def document(finished_run) -> Results:
    """The record of the complete run."""
    return load(finished_run[1] / "results.json")


@pytest.fixture(scope="session")
def many(finished_run) -> Analysis:
    """A run with a scenario of each kind."""
    return analyse(documents.many(load(finished_run[1] / "results.json")))


@pytest.fixture(scope="session")
def page(many) -> Page:
    return Page(pages.page(many).decode())


@dataclass(frozen=True)
class Few:
    """Some candidates of a plan, and its comparisons of them."""

    plan: ComparisonPlan
    candidates: tuple[Candidate, ...]

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.plan.cases

    def ranked(self, configs: Iterable[str], workers: Iterable[int], quick: bool) -> list[tuple[int, Candidate]]:
        real = {c for _, c in self.plan.ranked(configs, workers, quick)}
        assert real >= set(self.candidates), "they have to be of the plan"
        return [(0, c) for c in self.candidates]

    def pairs(self, candidates: Iterable[Candidate]) -> list[Pair]:
        return self.plan.pairs(candidates)


@pytest.fixture
def run_few(monkeypatch, tmp_path, twin, photos, capsys):
    """Runs the command, in this process, with some candidates of a scenario, once each; nothing is left running.

    Returns the scenario's record and what was printed.
    """

    def run(name: str, candidates: Iterable[Candidate], *more: object) -> tuple[Scenario, str]:
        scenario, mark = SCENARIOS[name], uuid.uuid4().hex
        monkeypatch.setitem(SCENARIOS, name, replace(scenario, plan=Few(scenario.plan, tuple(candidates))))
        monkeypatch.setenv("FT_BENCH_TEST_RUN", mark)
        data = ["--data", photos] if scenario.source == "images" else []
        arguments = [name, "--quick", "--out", tmp_path / "out", "--configs", twin, "--rounds", 1, *data, *more]
        assert cli.main([str(argument) for argument in arguments]) == 0
        # What outlives its trial is killed by the kernel, which takes a moment.
        _, left = psutil.wait_procs(marked(mark), timeout=60)
        assert not left
        document = load(tmp_path / "out/latest/results.json")
        assert document.status == "complete" and document.skipped == []
        (entry,) = document.scenarios
        return entry, capsys.readouterr().out

    return run


@pytest.fixture
def run_trial(twin):
    """Runs one trial in a process of its own, as an endpoint does; returns its result."""

    def run(name: str, variant: str, case: str = "", workers: int = 1, **more: object) -> dict:
        scenario = SCENARIOS[name]
        usual = {"paths": [], "warmup_batches": 1, "prefetch_factor": 2, "parameters": scenario.case(case).parameters}
        task = Task(scenario, variant=variant, workers=workers, case=case, config=twin, **{**usual, **more})
        return to_its_end(TrialProcess(sys.executable, task.request(), {}))

    return run


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
