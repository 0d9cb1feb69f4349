"""The thread-safety suite as part of a run: real runs of it,
what is kept of them, and what the report says.
"""

import contextlib
import functools
import itertools
import json
import signal
import sys
from dataclasses import fields, replace
from types import SimpleNamespace

import pytest

from ftbench import arguments
from ftbench.compare.comparing import compare
from ftbench.document.check import Inconsistent, check_form, check_keys
from ftbench.document.convert import as_json
from ftbench.document.model import Results, Stress, StressResult
from ftbench.document.store import load
from ftbench.report import page, safety, terminal
from ftbench.report.view import view
from ftbench.stats.analysis import analyse
from ftbench.trial import stress
from ftbench.trial.endpoints import RemoteEndpoint
from ftbench.trial.process import TrialFailed
from ftrun.configurations import child_environment, command
from ftrun.interruption import Interruption
from ftrun.supervise import supervise
from tests.checkout import CHECKOUT
from tests.processes import assert_gone, descendants, wait_until
from tests.programs import programs_to_end
from tests.unit.bench import documents, simulated
from tests.unit.bench.reports import compared, summary_of


@pytest.fixture(scope="module")
def measured() -> Results:
    return simulated.document(simulated.blank(), 0, rounds=3)


def begun(seed: int = 0) -> Stress:
    return Stress("incomplete", stress.KILLED, None, seed, None, [], [])


@pytest.mark.slow
def test_its_lines_become_results(twin):
    """Two scenarios, as the suite runs them for a benchmark."""
    lines: list[bytes] = []
    outcome = supervise(
        [
            *command(sys.executable, stress.PROGRAM),
            "--seed",
            "5",
            "-k",
            "ListAsResults or containers.Slots",
        ],
        b"",
        child_environment(twin, paths=[str(CHECKOUT)]),
        {},
        280,
        lines.append,
    )
    assert outcome.returncode == 0, outcome.stderr.decode()
    part = begun(seed=5)
    taken = list(stress.take(part, twin, map(json.loads, b"".join(lines).splitlines())))
    assert (
        part.scenarios == ["containers.ListAsResults", "containers.Slots"] and taken == part.results
    )
    assert len(taken) == 2 and len(part.source) == 64
    for result in part.results:
        assert (result.outcome, result.failures, result.configuration) == ("passed", [], twin)
        assert result.iterations >= 1 and result.threads == 4 and result.seed == 5


@pytest.mark.slow
def test_a_peer_tells_as_it_runs_and_leaves_nothing_when_its_client_goes(
    command, environment, twin, tmp_path
):
    part = begun()
    with programs_to_end() as start, Interruption() as interruption:
        server = start(
            command("--socket", tmp_path / "s", module="ftbench.trial.server"), env=environment
        )
        endpoint = RemoteEndpoint(tmp_path / "s", interruption)
        suite = endpoint.start(stress.request(part, twin))
        results = stress.take(part, twin, iter(suite.go_on, None))
        next(results), next(results)
        # pytest, and the process that runs the scenarios
        running = descendants(server.pid, at_least=2)
        endpoint.close()
        assert server.wait() == 0
        assert_gone(running)
    assert len(part.results) == 2 and len(part.scenarios) > 32


@pytest.mark.slow
def test_interrupted_suite_leaves_what_was_measured_whole(environment, few, twin, tmp_path):
    def stress_has_begun() -> bool:
        return any(
            '"stress": {' in path.read_text() for path in tmp_path.glob("out/*/results.json")
        )

    command = few(tmp_path / "out", "pillow=loader-thread/1", "--rounds", 1, "--stress")
    with programs_to_end() as start:
        run = start(command, env=environment)
        wait_until(lambda: stress_has_begun() or run.poll() is not None)
        assert run.poll() is None, run.communicate()
        processes = descendants(run.pid)
        run.send_signal(signal.SIGINT)
        output, errors = run.communicate()
    assert run.returncode == 130, errors
    assert_gone(processes)
    saved = load(tmp_path / "out")
    assert (saved.status, saved.reason) == ("complete", None) and len(
        saved.scenarios[0].rounds
    ) == 1
    assert saved.stress.status == "incomplete"
    assert saved.stress.reason == f"interrupted (SIGINT) in {twin}"
    page = (tmp_path / "out/latest/report.html").read_text()
    for text in (output, page, (tmp_path / "out/latest/summary.md").read_text()):
        assert "did not come to its end" in text and "bench --quick --stress" in " ".join(
            text.split()
        )


@pytest.mark.slow
def test_a_suite_that_takes_too_long_is_ended_and_its_scenario_named(monkeypatch, tmp_path, twin):
    """Whatever else it writes in that time: the limit is for the whole, not for a line. A line
    takes 500 s here.
    """
    program = tmp_path / "slow.py"
    program.write_text(
        "import itertools, json, time\n"
        "print(json.dumps({'source': 'a', 'scenarios': ['one', 'two']}), flush=True)\n"
        "for number in itertools.count():\n    time.sleep(0.1)\n"
        "    print(json.dumps({'source': 'a', 'scenarios': "
        "['one', 'two']}), flush=True)\n"
    )
    monkeypatch.setattr(stress, "command", lambda python, _: [python, str(program)])
    monkeypatch.setattr(
        stress, "time", SimpleNamespace(monotonic=functools.partial(next, itertools.count(0, 500)))
    )
    part = begun()
    suite = stress.StressProcess(sys.executable, stress.request(part, twin), {})
    with (
        contextlib.closing(suite),
        pytest.raises(TrialFailed, match="^one: it hangs, or did not end within 1200 s"),
    ):
        list(stress.take(part, twin, iter(suite.go_on, None)))


@pytest.mark.parametrize(
    "line, message",
    [
        ({"scenario": "files.SharedZip"}, "lacks 'configuration'"),
        ({"source": "b" * 64, "scenarios": []}, "another version"),
        ({"source": "a" * 64, "scenarios": ["a", "b"]}, "2 scenarios did not run"),
        (
            {each.name: [] for each in fields(StressResult)} | {"configuration": "gil"},
            "ran as gil, not as ft",
        ),
    ],
)
def test_lines_that_cannot_be_taken(line, message):
    with pytest.raises(TrialFailed, match=message):
        list(stress.take(replace(begun(), source="a" * 64), "ft", iter([line])))


@pytest.mark.parametrize(
    "given, wanted",
    [
        ([], (True, None)),
        (["all"], (True, None)),
        (["--quick"], (False, None)),
        (["pillow"], (False, None)),
        (["--quick", "--stress"], (True, None)),
        (["--no-stress"], (False, None)),
        (["pillow", "--stress-minutes", "2.5"], (True, 2.5)),
    ],
)
def test_when_it_runs(given, wanted):
    found = arguments.parse(given)
    assert (found.stress, found.stress_minutes) == wanted


@pytest.mark.parametrize(
    "given",
    [
        ["--no-stress", "--stress-minutes", "1"],
        ["--stress-minutes", "0"],
        ["--stress-minutes", "long"],
    ],
)
def test_what_makes_no_sense(given):
    with pytest.raises((arguments.UsageError, SystemExit)):
        arguments.parse(given)


def test_documents_with_and_without_it_pass(measured):
    for document in (
        measured,
        documents.with_stress(measured),
        documents.with_stress(measured, failing=True),
    ):
        check_form(as_json(document))
        check_keys(document)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda part: part.results.pop(), "are complete"),
        (lambda part: part.results.append(part.results[0]), "is listed twice"),
        (lambda part: part.results[0].failures.append("x"), "has passed, and 1 failures"),
        (lambda part: setattr(part.results[0], "scenario", "files.Other"), "was not to be run"),
    ],
)
def test_an_edit_is_noticed(measured, change, message):
    edited = documents.with_stress(measured)
    change(edited.stress)
    with pytest.raises(Inconsistent, match=message):
        check_keys(edited)


def outputs(document: Results, directory, capsys) -> list[str]:
    """The report in all its forms, on one line each."""
    run = analyse(document)
    terminal.write(view(run, page=directory / "report.html", detailed=True))
    return [
        " ".join(text.split())
        for text in (
            capsys.readouterr().out,
            page.write(view(run)).decode(),
            summary_of(run).replace("\\", ""),
        )
    ]


@pytest.mark.slow
def test_report_shows_iterations_threads_and_failures(measured, tmp_path, capsys):
    failing = documents.with_stress(measured, failing=True)
    (config,) = failing.options.configs
    table = safety.table(failing, failing.stress)
    assert table.head == ("scenario", "threads", config)
    assert table.rows == (
        ("containers.Slots", "4", "passed, 1,234 rounds"),
        ("files.SharedZip", "4", "failed, 1,234 rounds"),
        ("loaders.Left", "4", "crashed"),
    )
    for text in outputs(failing, tmp_path, capsys):
        assert "2 did not pass: files.SharedZip failed, loaders.Left crashed" in text
        assert (
            "BadZipFile" in text
            and "crashed: SIGSEGV" in text
            and "tests/stress/test_scenarios.py -k Left" in text
        )
        assert "cpython/issues/86535" in text
    assert stress.problem(failing.stress) == (
        f"thread-safety suite: files.SharedZip failed in {config}; loaders.Left crashed in {config}"
    )
    for text in outputs(documents.with_stress(measured), tmp_path, capsys):
        assert (
            f"{config}: 3 scenarios, 3,702 rounds, no failure." in text
            and "did not pass" not in text
        )


@pytest.mark.slow
def test_report_says_that_it_was_not_run(measured, tmp_path, capsys):
    for text in outputs(measured, tmp_path, capsys):
        assert "was not part of this run. To run it: ./twins bench --quick --stress" in text
    asked = replace(measured, options=replace(measured.options, stress=True))
    for text in outputs(asked, tmp_path, capsys):
        assert "was not run, since the measurement did not come to its end" in text


def test_compare_tells_changed_outcomes(measured):
    passing, failing = (
        documents.with_stress(measured),
        documents.with_stress(measured, failing=True),
    )
    (config,) = passing.options.configs
    found = compare(passing, failing)
    assert found.outcomes == [
        f"files.SharedZip in {config}: passed in A, failed in B",
        f"loaders.Left in {config}: passed in A, crashed in B",
    ]
    assert "changed   files.SharedZip" in compared(found, ("a", passing), ("b", failing))
    assert compare(passing, passing).outcomes == []
    assert ("thread-safety suite", "run in B alone") in compare(measured, passing).left_out
