"""Files appear whole or not at all, and earlier results are never touched."""

import functools
import json
import operator
import os
import resource
import signal
from dataclasses import replace

import fastjsonschema
import pytest

from ftbench.document.check import validator
from ftbench.document.convert import as_json
from ftbench.document.store import ResultsError, RunDirectory, load, write_atomically
from tests.programs import completed


def test_a_run_makes_its_directory_with_its_first_file(tmp_path):
    results = RunDirectory(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    results.write("results.json", b'{"a": 1}')
    results.publish()
    (run,) = [p for p in (tmp_path / "out").iterdir() if not p.is_symlink()]
    assert json.loads((tmp_path / "out/latest/results.json").read_text()) == {"a": 1}
    assert os.readlink(tmp_path / "out/latest") == run.name
    assert [p.name for p in run.iterdir()] == ["results.json"]


def test_runs_of_one_second_do_not_share_a_directory(tmp_path):
    runs = [RunDirectory(tmp_path) for _ in range(3)]
    for number, results in enumerate(runs):
        results.write("results.json", b'{"run": %d}' % number)
        results.publish()
    assert len({results.directory for results in runs}) == 3
    assert json.loads((tmp_path / "latest/results.json").read_text()) == {"run": 2}


def test_something_else_called_latest_is_left_alone(tmp_path):
    (tmp_path / "latest").mkdir()
    results = RunDirectory(tmp_path)
    results.write("results.json", b"{}")
    with pytest.raises(ResultsError, match="not a symbolic link"):
        results.publish()
    assert (tmp_path / "latest").is_dir()


def test_a_failing_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "results.json"
    write_atomically(path, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(OSError):
            write_atomically(path, b"new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_full_disk(disk):
    """On a real file system of 64 kB that fills up during the run."""
    directory = disk(64 << 10)
    results = RunDirectory(directory)
    results.write("results.json", b'{"rounds": [1]}')
    with pytest.raises(
        ResultsError, match=r"No space left.*intact there: results\.json.*Make room"
    ) as caught:
        results.write("results.json", b"x" * 100_000)
    assert "earlier results are untouched" in str(caught.value) and "then run again" in str(
        caught.value
    )
    with pytest.raises(
        ResultsError, match="Make room, then make the report: ./twins bench report "
    ) as caught:
        results.write("waterfall.png", b"x" * 100_000)
    assert str(caught.value).endswith(f" {results.directory}") and "run again" not in str(
        caught.value
    )
    assert json.loads((results.directory / "results.json").read_text()) == {"rounds": [1]}
    assert [p.name for p in results.directory.iterdir()] == ["results.json"]


@pytest.fixture
def run_on(few, environment, finished_run, disk, tmp_path):
    """Runs the command on a disk with room for some times the results.json of its first round, and
    some bytes more.

    Returns what it did, and the only directory there.
    """

    def run(times: float, more: int, rounds: int, *variants: str):
        measured = load(finished_run[1])
        (scenario,) = measured.scenarios
        kept = [c for c in scenario.candidates if c.variant in variants]
        keys = [c.key for c in kept]
        first = replace(
            scenario.rounds[0], trials=[t for t in scenario.rounds[0].trials if t.candidate in keys]
        )
        short = replace(
            measured,
            waterfalls=[],
            scenarios=[replace(scenario, candidates=kept, pairs=[], rounds=[first])],
        )
        RunDirectory(tmp_path / "short").save(short)
        (file,) = (tmp_path / "short").glob("*/results.json")
        directory = disk(int(times * file.stat().st_size) + more)
        command = few(
            directory, f"pillow={','.join(f'{each}/1' for each in variants)}", "--rounds", rounds
        )
        done = completed(command, env=environment)
        (only,) = directory.iterdir()
        return done, only

    return run


@pytest.mark.slow
def test_disk_that_fills_up_during_a_run(run_on):
    """Room for one results.json, not for the next beside it."""
    done, run = run_on(1.3, 0, 3, "loader-thread")
    assert done.returncode == 1
    assert "No space left" in done.stderr and "intact there: results.json" in done.stderr
    assert "Traceback" not in done.stderr
    saved = load(run / "results.json")
    assert saved.status == "incomplete"
    assert 1 <= len(saved.scenarios[0].rounds) < 3


@pytest.mark.slow
def test_disk_without_room_for_the_report(run_on, finished_run):
    """Room for results.json and its successor, not for pictures and page: what was measured is
    shown and kept.
    """
    sizes = {p.name: p.stat().st_size for p in finished_run[1].iterdir()}
    smaller = min(sizes["report.html"], sizes["waterfall.png"])
    assert smaller > 16384
    done, run = run_on(2.2, smaller // 2, 1, "torch-process", "loader-thread")
    assert done.returncode == 1 and "No space left" in done.stderr
    assert f"./twins bench report {run}" in done.stderr and "run again" not in done.stderr
    assert "in all" in done.stdout and "report:" not in done.stdout
    assert load(run / "results.json").status == "complete" and not (run / "report.html").exists()


GONE = object()
ROUND, PAIR = "scenarios/0/rounds/0", "scenarios/0/pairs/0"


@pytest.mark.parametrize(
    "where, value",
    [
        ("environment", GONE),
        (f"{PAIR}/why", GONE),
        (f"{ROUND}/disturbance/before/governor", GONE),
        ("environment/twins/other", {}),
        ("seconds", "long"),
        ("reason", 1),
        ("options/quick", 1),
        ("scenarios/0/candidates", {}),
        (f"{ROUND}/number", 1.5),
        (f"{ROUND}/trials/0/disturbance/own_cpus", None),
        ("scenarios", []),
        ("scenarios/0/load/turns", 0),
        ("waterfalls/0/total/verdict", "faster"),
        (f"{ROUND}/disturbance/before/load", [1.0, 2.0]),
        ("waterfalls/0/steps", []),
        ("waterfalls/0/ends/memory_mib", [1.0, 2.0, 3.0]),
        ("status", "perhaps"),
        ("schema_version", 5),
        ("scenarios/0/candidates/0/config", "gil-ft"),
        ("environment/revision/from", "memory"),
        ("scenarios/0/metrics/0", "-"),
    ],
)
def test_damage_is_refused_where_it_is(document, where, value):
    damaged = as_json(document)
    *path, last = (int(name) if name.isdecimal() else name for name in where.split("/"))
    holder = functools.reduce(operator.getitem, path, damaged)
    if value is GONE:
        del holder[last]
    else:
        holder[last] = value
    with pytest.raises(fastjsonschema.JsonSchemaValueException) as caught:
        validator()(damaged)
    # A key that is missing is its object's fault.
    assert "/".join(caught.value.path[1:]) in (where, where.rpartition("/")[0])
