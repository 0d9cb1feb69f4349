"""The commands that repeat a run, or make it longer."""

import fnmatch
import html
import math
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from ftbench import arguments, cli
from ftbench.document.model import Verdict
from ftbench.document.store import load
from ftbench.report import commands
from ftbench.stats.analysis import Analysis, analyse
from ftbench.stats.comparisons import more_minutes
from ftsafety.audit import arguments as audit_arguments
from ftsafety.repro import arguments as repro_arguments
from tests.unit.bench.reports import decided, renamed
from tests.unit.bench.simulated import blank


def test_commands_ask_for_the_same(document, photos):
    document = replace(
        document, options=replace(document.options, data=str(photos), rounds=2, batch_size=2)
    )
    found = {what: shlex.split(line) for what, line in commands.commands(analyse(document))}
    line = found["The same measurement"]
    start = line.index("./twins")
    assert line[start : start + 2] == ["./twins", "bench"]
    given, said = arguments.parse(line[start + 2 :]), document.options
    assert [s.name for s in given.scenarios] == said.scenarios
    for key in ("quick", "rounds", "batch_size", "workers", "configs"):
        value = getattr(given, key)
        assert (list(value) if isinstance(value, tuple) else value) == getattr(said, key)
    assert str(given.data) == said.data
    docker = found["The same with Docker"]
    assert docker[0] == f"DATA={said.data}" and docker[docker.index("--data") + 1] == "/data"


@pytest.mark.parametrize(
    "where, given, native, docker",
    [
        ("python", {"data": "photos"}, "--data photos", "DATA=./photos * --data /data"),
        (
            "python",
            {"dataset": "/me/a.py:x"},
            "--dataset /me/a.py:x",
            "CODE=/me * --dataset a.py:x",
        ),
        (
            "unix:/run/ft",
            {"data": "/data/few", "folders": {"DATA": "/my photos"}},
            "--data '/my photos/few'",
            "DATA='/my photos' * --data /data/few",
        ),
        (
            "unix:/run/ft",
            {"data": "/data"},
            "--data your/images",
            "DATA=./your/images * --data /data",
        ),
        (
            "unix:/run/ft",
            {"dataset": "a.py:x", "folders": {"CODE": "/me", "DATA": "/photos"}},
            "--dataset /me/a.py:x",
            "CODE=/me DATA=/photos * --dataset a.py:x",
        ),
        # As a file .env has it.
        (
            "unix:/run/ft",
            {"dataset": "a.py:x", "folders": {"CODE": "~/my code"}},
            "--dataset ~/'my code/a.py:x'",
            "CODE=~/'my code' * --dataset a.py:x",
        ),
    ],
)
def test_commands_name_the_users_own_folders(where, given, native, docker):
    document = blank()
    document.options = replace(document.options, twins={"ft": where}, **given)
    found = dict(commands.commands(Analysis(document, [], [])))
    assert native in found["The same measurement"] and "/data" not in found["The same measurement"]
    assert fnmatch.fnmatchcase(found["The same with Docker"], f"{docker} *")


@pytest.mark.parametrize(
    "place, ratio, half, precision",
    [
        ("step", 1.04, 0.06, 0.028),
        ("total", 1.04, 0.06, 0.028),
        ("step", 1.004, 0.008, 0.002),
        ("step", 4.0, 2.0, 0.05),  # no less precise than the run itself
    ],
)
@pytest.mark.parametrize("where", ["/usr/bin/python3", "unix:/run/ft"], ids=["native", "docker"])
def test_a_run_that_would_settle_it_is_a_longer_one(many, place, ratio, half, precision, where):
    run = renamed(decided(many), "text")
    options = run.results.options = replace(
        run.results.options, twins={"ft": where}, data=None, scenarios=["text", "pillow"]
    )
    assert commands.longer(run) == []
    (fall,) = run.waterfalls
    steps = fall.throughput
    one = steps.total if place == "total" else steps.steps[1].change
    one.ratio, one.low, one.high = ratio, ratio / math.exp(half), ratio * math.exp(half)
    one.verdict, one.resolution = Verdict.NO_DIFFERENCE, math.exp(1.4 * half)
    ((what, line),) = commands.longer(run)
    assert what == "A run that would settle what is open"
    line = shlex.split(line)
    given = arguments.parse(
        line[line.index("ft-bench" if where.startswith("unix:") else "bench") + 1 :]
    )
    assert (
        given.rounds is None
        and given.budget > options.budget
        and given.precision == pytest.approx(precision)
    )
    assert [scenario.name for scenario in given.scenarios] == ["text"]


def test_a_run_that_would_settle_it_has_enough_for_the_slowest_scenario(many):
    narrow = {"ratio": 1.04, "low": 1.04 / math.exp(0.06), "high": 1.04 * math.exp(0.06)}
    both = [
        renamed(decided(many, **narrow, resolution=seen), name)
        for name, seen in (("pillow", 1.08), ("text", 1.11))
    ]
    results = replace(both[0].results, scenarios=[each.results.scenarios[0] for each in both])
    run = Analysis(
        results, [each.scenarios[0] for each in both], [each.waterfalls[0] for each in both]
    )
    run.results.options = replace(
        run.results.options, data=None, scenarios=["pillow", "text"], budget=300.0
    )
    last = [each.waterfalls[0].throughput.steps[-1].change for each in both]
    minutes = [
        more_minutes(scenario, change)
        for scenario, change in zip(results.scenarios, last, strict=True)
    ]
    assert minutes[0] < minutes[1]
    ((_, line),) = commands.longer(run)
    given = arguments.parse(shlex.split(line)[2:])
    # As rounds.run shares a budget out.
    first, second = (s.share(given.quick) for s in given.scenarios)
    for part in (first, second):
        assert given.budget * part / (first + second) >= 300 / 2 + 60 * max(minutes)
    # What cannot be settled is not promised.
    step = run.waterfalls[1].throughput.steps[1]
    step.change = replace(
        step.change, ratio=1.001, low=0.5, high=2.0, resolution=3.0, verdict=Verdict.NO_DIFFERENCE
    )
    assert [what for what, _ in commands.longer(run)] == [
        "A run that would settle some of what is open"
    ]


def test_a_run_without_the_suite_is_repeated_without_it():
    options = blank().options
    for quick, stress, expected in (
        (False, False, True),
        (False, True, False),
        (True, False, False),
    ):
        given = replace(options, dataset="fine:x", quick=quick, stress=stress)
        assert ("--no-stress" in commands.options(given)) is expected


@pytest.mark.parametrize("given", [["pillow"], ["merge", "a", "b"]])
def test_out_is_checked_before_anything_is_built(given, capsys):
    with pytest.raises(SystemExit, match="^2$"):
        arguments.check([*given, "--out", "/dev/null"], "./twins bench")
    assert (
        "cannot write results to /dev/null; name another directory with --out DIR"
        in capsys.readouterr().err
    )


@pytest.mark.slow
def test_every_printed_command_is_understood_where_it_was_printed(saved_run, capsys):
    """In the terminal, the page and the summary: options are checked,
    and what is to be read is there.
    """
    assert cli.main(["report", str(saved_run)]) == 0
    outputs = {
        "terminal": capsys.readouterr().out,
        "page": html.unescape((saved_run / "report.html").read_text()),
        "summary": (saved_run / "summary.md").read_text(),
    }
    checks = {
        "bench": arguments.check,
        "audit": audit_arguments.check,
        "repro": repro_arguments.check,
    }
    for name, text in outputs.items():
        found = re.findall(
            r"(?:docker compose run --rm ft-|\./twins )(bench|audit|repro)\b([^\n<`]*)", text
        )
        assert found, name
        for verb, rest in found:
            given = shlex.split(rest.rstrip("."))
            # the container's folder
            given = [str(saved_run) if word == "/data" else word for word in given]
            if given[:1] == ["report"]:
                assert load(Path(given[1])), name
            checks[verb](given, f"./twins {verb}")
    assert str(saved_run) in outputs["page"]
