"""What the command refuses, how it says so, and that it leaves nothing behind."""

import os
import subprocess
import sys

import pytest

from ftbench import __main__, cli
from ftbench.arguments import check, parse
from ftbench.scenarios import SCENARIOS
from tests.checkout import CHECKOUT
from tests.programs import completed


@pytest.fixture
def refused(capsys, tmp_path):
    """Runs the command in this process, which refuses its arguments and leaves nothing; returns
    what it says.
    """

    def run(*arguments: object, out: object = tmp_path / "out") -> str:
        try:
            status = cli.main([*map(str, arguments), *(["--out", str(out)] if out else [])])
        except SystemExit as end:  # argparse's
            status = end.code
        said = capsys.readouterr()
        assert status == 2 and said.out == "" and not (tmp_path / "out").exists()
        return said.err

    return run


@pytest.mark.slow
def test_a_refusal_is_an_exit_status_and_a_line(run_bench, tmp_path):
    done = run_bench("pilow", "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stdout == "" and not (tmp_path / "out").exists()
    (line,) = done.stderr.splitlines()
    assert "unknown scenario 'pilow' (--list shows all): did you mean 'pillow'?" in line


@pytest.mark.slow
def test_data_that_cannot_be_used(refused, photos, tmp_path):
    assert "does not exist" in refused("--data", tmp_path / "none")
    assert "--data is for images, which none of peers-memory reads" in refused(
        "peers-memory", "--data", photos
    )
    (tmp_path / "data").mkdir()
    (tmp_path / "data/readme.txt").write_text("no image")
    said = refused("--data", tmp_path / "data")
    assert "holds no images" in said and ".jpg" in said
    (tmp_path / "locked").mkdir(mode=0o000)
    if not os.access(tmp_path / "locked", os.R_OK):  # root reads every directory
        assert "cannot read" in refused("--data", tmp_path / "locked")


@pytest.mark.slow
def test_corrupt_image(refused, photos, tmp_path):
    content = (photos / "0.jpg").read_bytes()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/whole.jpg").write_bytes(content)
    (tmp_path / "data/cut.jpg").write_bytes(content[:-2000])
    (tmp_path / "data/noise.JPEG").write_bytes(b"\xff\xd8" + os.urandom(500))
    said = refused("--data", tmp_path / "data")
    for word in ("2 of 3 images cannot be decoded", "cut.jpg", "noise.JPEG", "Repair or remove"):
        assert word in said
    assert "whole.jpg" not in said


@pytest.mark.parametrize("out", ["/proc/no/such", "/dev/null"])
def test_out_that_cannot_be_written(refused, out):
    said = refused(out=out)
    assert f"cannot write results to {out}" in said and "--out DIR" in said


@pytest.mark.slow
def test_the_wrong_twin(refused, twin, other):
    said = refused("--twin", f"{other}={sys.executable}")
    assert f"--twin {other}={sys.executable}" in said and f"{twin!r} twin" in said


@pytest.fixture
def other(twin) -> str:
    return {"ft": "gil", "gil": "ft"}[twin]


@pytest.mark.slow
@pytest.mark.parametrize(
    "where, word",
    [
        ("/no/such/python", "no executable file"),
        ("/bin/true", "not a Python that can be a twin"),
        ("/bin/sh", "not a Python that can be a twin"),
    ],
)
def test_a_twin_that_is_no_python(refused, twin, where, word):
    said = refused("--twin", f"{twin}={where}")
    assert where in said and word in said


@pytest.mark.slow
def test_a_python_without_the_packages(refused, twin, tmp_path):
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True
    )
    assert str(tmp_path / "bare/bin/python") in refused(
        "--twin", f"{twin}={tmp_path / 'bare/bin/python'}"
    )


@pytest.mark.parametrize(
    "arguments, word",
    [
        (
            ["contention", "--batch-size", "8"],
            "--batch-size is for what loads batches; contention loads nothing",
        ),
        (["--workers", "-1"], "'-1' is not a whole number"),
        (["--workers", "0"], "0 alone has nothing to be compared with; use 0,1,2"),
        (
            ["augment", "interference", "--workers", "0,1"],
            "interference needs workers: it loads while the loop's steps run. These do without: "
            "pillow, text, augment, raw, ",
        ),
        (["--workers", "2,x"], "'x'"),
        (["--batch-size", "-1"], "positive whole number"),
        *(
            (["--ranks", given], f"'{given}' is not a whole number from 1 to 1024")
            for given in ("0", "-1", "x", "1025")
        ),
        (
            ["memory", "--ranks", "2"],
            "here one has to measure: memory: it follows the memory of one process",
        ),
        (["--rounds", "1.5"], "positive whole number"),
        (["--budget", "soon"], "number of seconds"),
        (["--precision", "0"], "is not a precision"),
        (["--again", "0"], "'0' is not a whole number from 2 to 1000"),
        (["--again", "3", "--every", "soon"], "'soon' is not a time such as 30m, 1h or 2d"),
        (["--again", "3", "--every", "0m"], "'0m' is not a time"),
        (["--again", "3", "--every", "31d"], "at most 30d"),
        (["--every", "1h"], "--every belongs to --again"),
        (["--configs", "nogil"], "known: gil, ft-gil, ft"),
        (["--twin", "3.13=python"], "ft=ENDPOINT"),
        (["--no-such-option"], "unrecognized"),
        (["--quik"], "unrecognized arguments: --quik: did you mean '--quick'?"),
        (["--no-stresss"], "unrecognized arguments: --no-stresss: did you mean '--no-stress'?"),
        (["scenarios"], "unknown scenario 'scenarios' (--list shows all)\n"),
        (["quick"], "unknown scenario 'quick' (--list shows all): did you mean '--quick'?"),
        (["--dataset", f"{CHECKOUT / 'README.md'}:x"], "is not a .py file"),
        (["--twin", "ft=a", "--twin", "ft=b"], "twice"),
    ],
)
def test_bad_values(refused, arguments, word):
    assert word in refused(*arguments)


def test_configurations_that_cannot_be_measured(refused, other):
    said = refused("--configs", other)
    assert "nothing to measure" in said and f"--twin {other}=" in said


def test_ctrl_c_before_the_run_is_a_line(monkeypatch, capsys):
    def interrupted() -> int:
        raise KeyboardInterrupt  # as in the middle of an import

    monkeypatch.setattr(cli, "main", interrupted)
    assert __main__.main() == 130
    assert capsys.readouterr().err == "./twins bench: interrupted\n"


@pytest.mark.slow
def test_a_budget_that_is_too_short_is_refused(run_bench, twin, tmp_path):
    given = [
        "text",
        "--quick",
        "--configs",
        twin,
        "--workers",
        1,
        "--budget",
        1,
        "--out",
        tmp_path / "out",
    ]
    done = run_bench(*given)
    assert done.returncode == 2 and done.stdout == "" and not (tmp_path / "out").exists()
    why = "--budget 1 is too short for the 9 processes that a verdict needs: they need "
    assert why in done.stderr and "s at the very least. Give more (150 is usual)" in done.stderr
    assert "warming up" not in done.stderr
    # Ranks take longer to start.
    done = run_bench(*given[:-3], 15, *given[-2:], "--ranks", 2)
    why = "the 9 processes that a verdict needs, each with 2 ranks: they need "
    assert done.returncode == 2 and why in done.stderr and "warming up" not in done.stderr


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["--quick"], "the 15 processes that a verdict needs: they need 21 s at the very least. "),
        ([], "Give more (1200 is usual), or a number of --rounds"),
        (["text"], "they need 20 s at the very least. Give more (600 is usual)"),
        (["text", "--ranks", "2"], "the 15 processes that a verdict needs, each with 2 ranks: "),
        # Four processes a round, since one measures all cases.
        (["overlap", "--quick"], "the 12 processes"),
        (["augment"], "the 25 processes"),  # five rounds
    ],
)
def test_a_budget_that_can_never_suffice_is_refused_before_anything_is_built(
    capsys, tmp_path, arguments, why
):
    given = [*arguments, "--budget", "3", "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit, match="^2$"):
        check(given, "./twins bench")
    said = capsys.readouterr().err
    assert said.startswith("./twins bench: --budget 3 is too short for the ") and why in said
    check([*given, "--rounds", "3"], "./twins bench")
    check([*given, "--budget", "400"], "./twins bench")


def test_list(capsys):
    with pytest.raises(SystemExit, match="^0$"):
        cli.main(["--list"])
    printed = capsys.readouterr().out.splitlines()
    heads, first = printed[:2]
    assert heads.split() == ["full", "quick"]
    name, full, unit, quick, *_ = first.split()
    (whole,) = [line.split() for line in printed if line.startswith("all ")]
    assert int(whole[1]) > 60 and int(whole[3]) < int(whole[1])
    assert [s.name for s in parse(["all"]).scenarios] == list(SCENARIOS)
    assert (
        name == "pillow"
        and unit == "min"
        and 0 < int(quick) < int(full)
        and "threads or processes?" in first
    )
    # A group with its members.
    peers = [scenario.name for scenario in SCENARIOS.values() if scenario.group == "peers"]
    at = next(number for number, line in enumerate(printed) if line.startswith("peers "))
    listed = printed[at + 1 : printed.index("", at)]
    assert [line.split()[0] for line in listed] == peers and all(
        line.startswith("  ") for line in listed
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "module, words",
    [
        ("ftbench", ["--quick", "--twin", "Exit status", "--dataset", "waterfall"]),
        ("ftbench.trial.server", ["--socket", "--idle"]),
        ("ftrun.info", ["--verify", "--expect", "--json"]),
    ],
)
def test_help_teaches(run_bench, module, words):
    done = run_bench("--help", module=module, status=0)
    assert all(word in done.stdout for word in words)


def test_options_may_stand_among_scenarios():
    given = parse(["--quick", "pillow", "--workers", "4,1"])
    assert (given.quick, [s.name for s in given.scenarios], given.workers) == (
        True,
        ["pillow"],
        [1, 4],
    )
    assert parse(["augment", "--workers", "2,0,1"]).workers == [0, 1, 2]
    assert [s.name for s in parse(["pillow", "pillow"]).scenarios] == ["pillow"]
    assert [s.name for s in parse([]).scenarios] == ["pillow", "text"]
    assert (parse([]).precision, parse(["--precision", "7.5%"]).precision) == (0.05, 0.075)


@pytest.mark.slow
def test_importing_bench_and_its_help_load_no_library():
    code = (
        "import sys, ftbench.cli; ftbench.cli.parse([]); "
        "print(sorted({'torch', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    done = completed(
        [sys.executable, "-c", code],
        cwd=os.getcwd(),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout == "[]\n", done.stderr
