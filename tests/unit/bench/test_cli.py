"""What the command refuses, how it says so, and that it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ftbench.arguments import parse
from ftbench.scenarios import SCENARIOS


def assert_refused(done: subprocess.CompletedProcess, status: int, *words: str) -> None:
    assert done.returncode == status, done.stderr
    for word in words:
        assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_unknown_scenario(run_bench, tmp_path):
    done = run_bench("pilow", "--out", tmp_path / "out")
    assert_refused(done, 2, "unknown scenario 'pilow'", "did you mean 'pillow'?", "known: pillow")
    assert not (tmp_path / "out").exists()


def test_missing_data(run_bench, tmp_path):
    done = run_bench("--data", tmp_path / "none", "--out", tmp_path / "out")
    assert_refused(done, 2, "does not exist")
    assert not (tmp_path / "out").exists()


def test_data_that_no_scenario_reads(run_bench, photos, tmp_path):
    done = run_bench("peers-memory", "--data", photos, "--out", tmp_path / "out")
    assert_refused(done, 2, "--data is for images, which none of peers-memory reads")


def test_batch_size_that_means_nothing(run_bench, tmp_path):
    done = run_bench("contention", "--batch-size", 8, "--out", tmp_path / "out")
    assert_refused(done, 2, "--batch-size is for what loads batches; contention loads nothing")


def test_empty_data(run_bench, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/readme.txt").write_text("no image")
    assert_refused(run_bench("--data", tmp_path / "data", "--out", tmp_path / "out"), 2, "holds no images", ".jpg")


def test_unreadable_data(run_bench, tmp_path):
    (tmp_path / "data").mkdir(mode=0o000)
    if os.access(tmp_path / "data", os.R_OK):
        pytest.skip("root reads every directory")
    assert_refused(run_bench("--data", tmp_path / "data", "--out", tmp_path / "out"), 2, "cannot read")


def test_corrupt_image(run_bench, photos, tmp_path):
    content = (photos / "0.jpg").read_bytes()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/whole.jpg").write_bytes(content)
    (tmp_path / "data/cut.jpg").write_bytes(content[:-2000])
    (tmp_path / "data/noise.JPEG").write_bytes(b"\xff\xd8" + os.urandom(500))
    done = run_bench("--data", tmp_path / "data", "--out", tmp_path / "out")
    assert_refused(done, 2, "2 of 3 images cannot be decoded", "cut.jpg", "noise.JPEG", "Repair or remove")
    assert "whole.jpg" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("out", ["/proc/no/such", "/dev/null"])
def test_out_that_cannot_be_written(run_bench, out):
    assert_refused(run_bench("--out", out), 2, f"cannot write results to {out}", "--out DIR")


def test_the_wrong_twin(run_bench, twin, tmp_path):
    other = {"ft": "gil", "gil": "ft"}[twin]
    done = run_bench("--twin", f"{other}={sys.executable}", "--out", tmp_path)
    assert_refused(done, 2, f"--twin {other}={sys.executable}", f"{twin!r} twin")


@pytest.mark.parametrize(
    "where, word",
    [
        ("/no/such/python", "no executable file"),
        ("/bin/true", "not a Python that can be a twin"),
        ("/bin/sh", "not a Python that can be a twin"),
    ],
)
def test_a_twin_that_is_no_python(run_bench, twin, tmp_path, where, word):
    assert_refused(run_bench("--twin", f"{twin}={where}", "--out", tmp_path), 2, where, word)
    assert list(tmp_path.iterdir()) == []


def test_a_python_without_the_packages(run_bench, twin, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    done = run_bench("--twin", f"{twin}={tmp_path / 'bare/bin/python'}", "--out", tmp_path / "out")
    assert_refused(done, 2, str(tmp_path / "bare/bin/python"))


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["--workers", "0"], "'0' is not a positive whole number"),
        (["--workers", "2,x"], "'x'"),
        (["--batch-size", "-1"], "positive whole number"),
        (["--rounds", "1.5"], "positive whole number"),
        (["--budget", "soon"], "number of seconds"),
        (["--precision", "0"], "is not a precision"),
        (["--configs", "nogil"], "known: gil, ft-gil, ft"),
        (["--twin", "3.13=python"], "ft=ENDPOINT"),
        (["--no-such-option"], "unrecognized"),
        (["--twin", "ft=a", "--twin", "ft=b"], "twice"),
    ],
)
def test_bad_values(run_bench, arguments, word):
    assert_refused(run_bench(*arguments), 2, word)


def test_configurations_that_cannot_be_measured(run_bench, twin):
    other = {"ft": "gil", "gil": "ft"}[twin]
    assert_refused(run_bench("--configs", other), 2, "nothing to measure", f"--twin {other}=")


def test_list(run_bench):
    done = run_bench("--list")
    assert done.returncode == 0
    heads, first = done.stdout.splitlines()[:2]
    assert heads.split() == ["full", "quick"]
    name, full, unit, quick, *_ = first.split()
    (whole,) = [line.split() for line in done.stdout.splitlines() if line.startswith("all ")]
    assert int(whole[1]) > 60 and int(whole[3]) < int(whole[1])
    assert [s.name for s in parse(["all"]).scenarios] == list(SCENARIOS)
    assert name == "pillow" and unit == "min" and 0 < int(quick) < int(full) and "threads or processes?" in first


@pytest.mark.parametrize(
    "module, words",
    [
        ("ftbench", ["--quick", "--twin", "Exit status", "--dataset", "waterfall"]),
        ("ftbench.trial.server", ["--socket", "--idle"]),
        ("ftrun.info", ["--verify", "--expect", "--json"]),
    ],
)
def test_help_teaches(run_bench, module, words):
    done = run_bench("--help", module=module)
    assert done.returncode == 0
    assert all(word in done.stdout for word in words)


def test_options_may_stand_among_scenarios():
    given = parse(["--quick", "pillow", "--workers", "4,1"])
    assert (given.quick, [s.name for s in given.scenarios], given.workers) == (True, ["pillow"], [1, 4])
    assert [s.name for s in parse(["pillow", "pillow"]).scenarios] == ["pillow"]
    assert [s.name for s in parse([]).scenarios] == ["pillow", "text"]
    assert (parse([]).precision, parse(["--precision", "7.5%"]).precision) == (0.05, 0.075)


def test_importing_bench_and_its_help_load_no_library():
    code = (
        "import sys, ftbench.cli; ftbench.cli.parse([]); "
        "print(sorted({'torch', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        text=True,
        capture_output=True,
        cwd=os.getcwd(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "[]\n", done.stderr
