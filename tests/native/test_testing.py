"""`./twins test`: which runs there are, their results, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from native import testing
from native.build import Twin
from tests.checkout import CHECKOUT
from tests.processes import assert_gone, wait_until

TWIN = Twin("ft", Path("twin"), Path(sys.executable), "3.13", False)


HANGS = """
import faulthandler, signal, subprocess, time
faulthandler.enable()
signal.signal(signal.SIGINT, lambda *_: print("interrupted", flush=True))
def hangs():
    print("started", subprocess.Popen(["sleep", "3600"]).pid, flush=True)
    time.sleep(3600)
hangs()
"""


def python(title, code):
    return testing.TestRun(title, [sys.executable, "-I", "-c", code], dict(os.environ))


def output(run):
    """Return what a run has written. Reading does not move where it writes next."""
    return os.pread(run.output.fileno(), 10_000, 0).decode() if run.process else ""


def test_a_failed_run_is_named_and_the_others_go_on(capsys):
    runs = [
        python("one", "print('said')"),
        python("two", "raise SystemExit(3)"),
        python("three", ""),
    ]
    assert testing.run(runs, selection=False) == 1
    shown = capsys.readouterr()
    assert "== one: passed in 0:00\nsaid\n" in shown.out and "== two: FAILED" in shown.out
    assert "== three: passed" in shown.out and "== 2 of 3 runs passed" in shown.out
    assert shown.err == "   failed: two\n"


@pytest.mark.parametrize("selection", [True, False])
def test_nothing_selected_is_no_failure_of_a_selection(selection):
    assert testing.run([python("none", "raise SystemExit(5)")], selection) == (
        0 if selection else 1
    )


def test_ctrl_c_reaches_every_run_and_their_reports_are_shown(capsys):
    waits = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(print('cleaned up')))\n"
        "print('ready', flush=True); time.sleep(3600)"
    )
    together = testing.AT_A_TIME
    runs = [python(str(number), waits) for number in range(together + 1)]

    def interrupt():
        wait_until(
            lambda: all(
                run.process and os.fstat(run.output.fileno()).st_size for run in runs[:together]
            )
        )
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        testing.run(runs, selection=False)
    thread.join()
    assert capsys.readouterr().out.count("ready\ncleaned up") == together
    assert runs[together].process is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.slow
def test_an_interruption_while_a_run_starts_ends_that_run(monkeypatch, number):
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    with pytest.raises(KeyboardInterrupt):
        testing.run([python("one", "import time; time.sleep(3600)")], selection=False)
    assert started[0].returncode is not None


def test_quick_runs_are_of_folders_that_exist():
    for run in testing.quick_runs(TWIN, ["-k", "order"]):
        paths = [
            Path(part.removeprefix("--ignore=")) for part in run.command if str(CHECKOUT) in part
        ]
        assert paths and all(path.is_dir() for path in paths) and "--quick" in run.command


@pytest.mark.parametrize(
    "named", ["tests/native", "tests/native/test_testing.py", "tests/native/test_testing.py::TWIN"]
)
def test_named_files_run_alone(named):
    (run,) = testing.chosen([TWIN], ["-x", named])
    assert run.command[1:] == ["-m", "pytest", "-x", named]
    assert not testing.chosen(
        [TWIN], ["-k", "loader", "--durations=5", "tests", "tests/nothing.py", "bench"]
    )


@pytest.mark.parametrize(
    "arguments",
    [["-k", "nope"], ["--durations=5", "-x", "tests/native"], ["-p", "no:cacheprovider"]],
)
def test_values_of_options_are_no_files(arguments):
    testing.check(arguments)


def test_a_run_of_both_twins_has_every_folder_of_tests():
    runs = testing.all_runs({"ft": TWIN, "gil": TWIN}, ["-k", "order"])
    named = {
        Path(part).relative_to(CHECKOUT / "tests").parts[0]
        for run in runs
        for part in run.command
        if "/tests/" in part
    }
    folders = {
        path.name
        for path in (CHECKOUT / "tests").iterdir()
        if path.is_dir() and any(path.rglob("test_*.py"))
    }
    assert named == folders


def test_sigterm_ends_every_run_too_and_one_that_does_not_report_is_killed(capsys, monkeypatch):
    monkeypatch.setattr(testing, "REPORTS_WITHIN", 1.0)
    run = python("one", HANGS)

    def terminate():
        wait_until(lambda: output(run))
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=terminate)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        testing.run([run], selection=False)
    thread.join()
    shown = capsys.readouterr().out
    assert "== one: interrupted" in shown and "in hangs" in shown  # the traceback
    assert_gone([int(shown.split("started ")[1].split()[0])])
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_ctrl_c_kills_the_runs_and_what_they_started(capsys):
    runs = [python("one", HANGS), python("two", HANGS)]

    def interrupt_twice():
        for expected in ("started", "interrupted"):
            wait_until(lambda: all(expected in output(run) for run in runs))
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt_twice)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        testing.run(runs, selection=False)
    thread.join()
    assert [run.process.returncode for run in runs] == [-signal.SIGKILL] * 2
    assert_gone([int(output(run).split()[1]) for run in runs])
    assert "Ctrl-C again" in capsys.readouterr().out
