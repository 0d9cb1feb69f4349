"""action.yml's script, run as GitHub's runner runs it."""

import json
import os
import re
import subprocess
import sys

import pytest

from native import action
from tests.checkout import CHECKOUT

SCRIPT = CHECKOUT / "native" / "action.py"
HOSTILE = "a%b\r\n::error::c, d: e `````"


@pytest.fixture
def runner(tmp_path):
    """Return a function that runs the action in a repository and returns the process and outputs."""
    repository, scratch = tmp_path / "a repository", tmp_path / "scratch"
    repository.mkdir()
    scratch.mkdir()

    def run(command, target, arguments="", **variables):
        environment = {
            **os.environ,
            "ACTION_COMMAND": command,
            "ACTION_TARGET": target,
            "ACTION_ARGUMENTS": arguments,
            "GITHUB_WORKSPACE": str(repository),
            "GITHUB_OUTPUT": str(scratch / "output"),
            "GITHUB_STEP_SUMMARY": str(scratch / "summary"),
            "GITHUB_TOKEN": "secret",
            "RUNNER_TEMP": str(scratch),
            **variables,
        }
        done = subprocess.run(
            [sys.executable, "-I", SCRIPT],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done, outputs(scratch / "output")

    run.repository, run.scratch = repository, scratch
    return run


def outputs(file):
    """Return {name: value} of a runner's file of outputs."""
    if not file.exists():
        return {}
    blocks = re.findall(r"^(\w+)<<(\w+)\n(.*?)\n\2$", file.read_text(), re.DOTALL | re.MULTILINE)
    return {name: value for name, _, value in blocks}


@pytest.mark.parametrize(
    ("command", "target", "arguments", "complaint"),
    [
        ("", "x.py", "", "command is '', not one of repro, audit, requirements, bench"),
        ("audit", " ", "", "target is empty"),
        ("repro", "x.py", "'open", "arguments cannot be split as a shell does"),
        ("repro", "x.py", "--out r.md", "leave out --out"),
        ("requirements", "it's", "", "target cannot be split as a shell does"),
        ("bench", "x.py:y", "", "there is no commit 'HEAD^' here"),
        (f"{HOSTILE}", "x", "", "command is "),
    ],
)
def test_wrong_inputs(runner, command, target, arguments, complaint):
    subprocess.run(["git", "init", "-q", runner.repository], check=True)
    done, _ = runner(command, target, arguments)
    *_, last = done.stdout.splitlines()
    assert (done.returncode, last.startswith("::error title=ft-env::")) == (2, True)
    assert complaint in last and "Traceback" not in done.stderr


def test_texts_of_strangers_stay_texts(tmp_path):
    annotation = action.Annotation("error", HOSTILE, HOSTILE, HOSTILE, "3")
    assert "\n" not in annotation.command() and "\r" not in annotation.command()
    assert annotation.command().count("::error") == 2, "its own, and one within the message"
    file = tmp_path / "output"
    file.write_text(action.output("verdict", HOSTILE.replace("\r", "") + "\nstatus=0\nx<<y"))
    assert [*outputs(file)] == ["verdict"]
    fence, *lines, end = action.fenced(HOSTILE).splitlines()
    assert fence.removesuffix("text") == end == "`" * 6 and end not in lines
    assert len(action.cut("ä" * action.MOST_SUMMARY).encode()) < 1024 * 1024


def test_the_base_is_measured_with_its_own_sources(tmp_path):
    environment = {
        "ACTION_COMMAND": "bench",
        "ACTION_TARGET": "data.py:rows",
        "GITHUB_WORKSPACE": str(tmp_path),
        "PYTHONPATH": f"{tmp_path}/src:/elsewhere",
    }
    base = action.RunnerStep.read(environment).elsewhere(tmp_path / "base")
    assert base.variables == {"PYTHONPATH": f"{tmp_path}/base/src:/elsewhere"}


@pytest.mark.slow
def test_repro(runner):
    (runner.repository / "a bug.py").write_text(
        "import os, sys\n"
        "print('::error::planted', [*os.environ.keys() & {'GITHUB_TOKEN', 'GITHUB_OUTPUT'}])\n"
        "assert not sys.path\n"
    )
    done, results = runner("repro", "a bug.py", "--repeat 2 --configs ft")
    assert done.returncode == int(results["status"]) not in (0, 1, 2), done.stderr
    assert "2 of 2 runs failed in ft" in results["verdict"]
    assert "[]" in (runner.scratch / "summary").read_text(), "the script saw the runner's own"
    pause = re.match(r"::stop-commands::(\w+)\n", done.stdout)[1]
    quiet, commands = done.stdout.split(f"\n::{pause}::\n")
    assert "::error title=ft-env%3A a bug.py,file=a bug.py,line=3::" in commands
    assert "::error::planted" not in commands


@pytest.mark.slow
def test_an_audit_that_cannot_be_made(runner):
    (runner.repository / "data.py").write_text("rows = 1\n")
    done, results = runner("audit", "data.py:train_set")
    assert (done.returncode, results["status"]) == (2, "2"), done.stderr
    assert "train_set" in results["verdict"] and "Traceback" not in done.stderr


@pytest.mark.slow
def test_audit(runner):
    lines = [
        "import torch",
        "class Rows(torch.utils.data.Dataset):",
        "    def __len__(self): return 64",
        "    def __getitem__(self, index):",
        "        self.last = index",
        "        sum(range(99))",
        "        return self.last",
        "make = Rows",
    ]
    (runner.repository / "data.py").write_text("\n".join(lines))
    done, results = runner("audit", "data.py:make", "--seconds 1")
    assert (done.returncode, results["status"]) == (1, "1"), done.stderr
    assert re.search(r"::warning title=.*,file=data.py,line=5::.*Remedy: ", done.stdout)
    report = (runner.scratch / "ft-env-report.md").read_text()
    assert results["verdict"] in report and results["report"].endswith("ft-env-report.md")
    assert report == (runner.scratch / "summary").read_text()


@pytest.mark.long(reason="two runs of the benchmark")
def test_bench_against_the_base(runner):
    git = ["git", "-C", runner.repository, "-c", "user.name=a", "-c", "user.email=a@b"]
    source = (
        "import time, torch\n"
        "class Rows(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 4096\n"
        "    def __getitem__(self, index):\n"
        "        time.sleep(SECONDS)\n"
        "        return index\n"
    )
    subprocess.run([*git, "init", "-q"], check=True)
    for seconds in ("0.001", "0.004"):
        (runner.repository / "data.py").write_text(source.replace("SECONDS", seconds))
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-qm", seconds], check=True)
    options = "--quick --rounds 3 --workers 1 --configs ft --no-stress"
    done, results = runner("bench", "data.py:Rows", options)
    assert (done.returncode, results["status"]) == (1, "1"), done.stdout + done.stderr
    assert "worse" in results["verdict"]
    assert "::error title=ft-env%3A loading,file=data.py::" in done.stdout
    assert not (runner.scratch / "ft-env-base").exists()
    report = (runner.scratch / "ft-env-report.md").read_text()
    assert json.dumps("A is HEAD^")[1:-1] in report
