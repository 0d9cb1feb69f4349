"""``python -m ftsafety.audit``: the faults it survives, and its exit status."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ftrun import target
from ftrun.errors import TargetError
from ftsafety.audit import arguments, cli
from ftsafety.audit.report import Finding, Report
from tests.checkout import importable
from tests.processes import assert_gone, descendants
from tests.programs import completed, programs_to_end

# Each program imports torch; a busy machine takes its time.
SUSPECTS = Path(__file__).with_name("suspects.py")


def command(name, *options):
    patient = ["--samples", "8", "--patience", "600"]
    return [sys.executable, "-m", "ftsafety.audit", f"{SUSPECTS}:{name}", *patient, *options]


def environment():
    return {**os.environ, "PYTHONPATH": importable()}


def run(name, *options, status=None):
    return completed(command(name, *options), status, env=environment())


@pytest.mark.slow
def test_a_safe_dataset():
    answer = run("clean", "--seconds", "1", "--json", status=0)
    report = json.loads(answer.stdout)
    assert report["ok"] is True
    assert report["tried"]


@pytest.mark.parametrize(
    ("name", "options", "status", "said"),
    [("clean", (), 0, ""), ("nothing_there", ("--json",), 2, "it has Clean")],
)
@pytest.mark.slow
def test_a_reader_may_have_had_enough(name, options, status, said):
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as pipe:
        line = command(name, "--seconds", "1", *options)
        done = subprocess.run(
            line, stdout=pipe, stderr=subprocess.PIPE, text=True, env=environment()
        )
    assert done.returncode == status and said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_crash_is_a_finding_with_signal_and_stack():
    answer = run("Crash", "--seconds", "5", status=1)
    assert "SIGABRT" in answer.stdout
    assert "in __getitem__" in answer.stdout
    assert "in 2 of 2 processes (SIGABRT, SIGABRT)" in answer.stdout


@pytest.mark.parametrize(
    ("signals", "threads", "words"),
    [
        (
            ["SIGSEGV", None],
            True,
            ["1. PROBLEM: the interpreter crashes under", "in 1 of 2 processes"],
        ),
        (["SIGKILL", "SIGKILL"], True, ["crashes under threads: SIGKILL", "in 2 of 2 processes"]),
        (
            ["SIGKILL", None],
            True,
            ["verdict: nothing was shown to be unsafe under threads; 1 failure was seen once"],
        ),
        (["SIGSEGV", None], False, ["ended by SIGSEGV", "1 failure was seen once"]),
    ],
)
def test_a_crash_that_did_not_repeat_is_no_all_clear(monkeypatch, capsys, signals, threads, words):
    signals = iter(signals)

    def run(self, *_):
        self.signal, self.threads = next(signals), threads
        self.answer = None if self.signal else {"report": Report("", "").to_dict()}

    monkeypatch.setattr(cli._Process, "run", run)
    assert cli.main([f"{SUSPECTS}:clean"]) == 1
    said = capsys.readouterr().out
    assert all(text in said for text in words), said


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "CrashAlone",
            "SIGABRT ended the process while loading 8 indices serially, three times, with one "
            "thread",
        ),
        ("Interrupts", "the dataset raised Traceback"),
    ],
)
@pytest.mark.slow
def test_what_ends_it_with_one_thread_is_no_race(name, words):
    answer = run(name, status=3)
    assert words in answer.stderr and not answer.stdout


def test_what_a_dataset_writes_into_the_pipe_is_no_message():
    said = {"progress": "loading", "threads": False}, {"error": "no such disk", "status": 3}
    own = [json.dumps(message).encode() for message in said]
    hostile = [
        b"[" * 20_000,
        b"[]",
        b"\xff",
        b'{"report": {}}',
        b'{"error": ["x"], "status": 3}',
        b'{"error": "an all-clear", "status": 0}',
        json.dumps(
            {"report": Report("", "", [Finding("", "no level", *"abcde")]).to_dict()}
        ).encode(),
        b'{"progress": 1}',
        b"9" * 5000,
    ]
    messages = cli._Process()
    for data in (b"\n".join([own[0], *hostile, own[1], *hostile]), b""):
        messages.take(data)
    assert (messages.answer, messages.step, messages.threads, messages.closed) == (
        said[1],
        "loading",
        False,
        True,
    )


@pytest.mark.slow
def test_a_deadlock_is_a_finding_with_stacks():
    answer = run("Deadlock", "--patience", "4", "--seconds", "30", status=1)
    assert "threads are stuck" in answer.stdout
    assert "with second:" in answer.stdout


@pytest.mark.slow
def test_a_torch_that_cannot_be_imported_is_not_the_datasets_fault(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no libcudart')\n")
    variables = {**environment(), "PYTHONPATH": f"{tmp_path}{os.pathsep}{importable()}"}
    done = completed(command("clean"), env=variables, status=3)
    assert "no libcudart" in done.stderr
    assert done.stderr.endswith(
        "the audit's process ended before it loaded the dataset; what it said is above\n"
    )


@pytest.mark.slow
def test_the_time_limit_shows_where_it_was():
    answer = run("NeverEnds", "--time-limit", "8", status=3)
    assert "not finished within --time-limit 8 s" in answer.stderr
    if "serially" in answer.stderr:  # else a busy machine took that long to import torch
        assert "in __getitem__" in answer.stderr


def test_targets_that_are_none(tmp_path):
    (tmp_path / "broken.py").write_text("import os\nraise RuntimeError('out of paper')\n")
    for name, text in [
        (f"{SUSPECTS}:nothing_there", "it has Clean"),
        (f"{SUSPECTS}:not_a_dataset", "gives a int, which is no dataset"),
        ("no_such_module:x", "No module named"),
        (f"{tmp_path}/broken.py:x", "RuntimeError: out of paper"),
        (f"{tmp_path}/missing.py:x", "there is no file"),
    ]:
        with pytest.raises(TargetError, match=text):
            target.load(name)
    assert len(target.load(f"{SUSPECTS}:tensors")) == 64
    assert type(target.load(f"{SUSPECTS}:Clean")).__name__ == "Clean"


@pytest.mark.slow
def test_a_missing_package_is_one_line_with_the_command(tmp_path):
    (tmp_path / "data.py").write_text("import no_such_package\n")
    wanted = f"{tmp_path}/data.py:rows"
    line = [sys.executable, "-P", "-m", "ftsafety.audit", wanted]
    last = completed(line, env=environment(), status=2).stderr.splitlines()[-1]
    install = "./twins exec ft pip install --target packages no_such_package"
    why = f"{wanted} needs the package of `import no_such_package`, which is not here"
    assert last == f"./twins audit: {why}: {install} && PYTHONPATH=packages ./twins audit {wanted}"


def test_wrong_usage(capsys):
    for line, text in [
        (["no-colon"], "is not FILE.py:NAME"),
        (["no_such_file.py:x"], "there is no file no_such_file.py"),
        (["a:b", "--threads", "1"], "2 to 256"),
        ([], "FILE.py:NAME"),
        (["a:b", "--indices", "1,x"], "no whole number"),
        (["a:b", "--seconds", "0"], "more than 0"),
    ]:
        with pytest.raises(SystemExit, match="2"):
            arguments.check(line)
        assert text in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        arguments.check(["--help"])
    assert "exit status" in capsys.readouterr().out


@pytest.mark.slow
def test_interrupting_leaves_no_process():
    with programs_to_end() as start:
        process = start(command("NeverEnds"), env=environment())
        assert any("serially" in line for line in process.stderr)  # it is at work
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert_gone(children)
