"""The verbs of ./twins, with existing twins."""

import json
import os
import re
import resource
import subprocess
import sys

import pytest

from native import TwinsError, build, cli
from native.variables import CLEARED
from tests.checkout import CHECKOUT, locked

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "verb", ["", "setup", "info", "exec", "bench", "repro", "test", "audit", "clean"]
)
def test_help_teaches(twins, verb):
    done = twins(*verb.split(), "--help", status=0)
    assert "usage:" in done.stdout.lower()
    assert verb != "repro" or all(
        w in done.stdout for w in ("NO WALLS", "REPRO_THREADS", "exit status", "PEP 723")
    )


def test_a_reader_may_have_had_enough(shell_environment):
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as pipe:
        line = [CHECKOUT / "twins", "bench", "--list"]
        done = subprocess.run(line, env=shell_environment, stdout=pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (141, b"")


def test_closed_standard_streams_are_empty_ones(shell_environment):
    code = (
        "import sys; sys.exit(None in (sys.stdin, sys.stdout, sys.stderr) or len(sys.stdin.read()))"
    )
    line = [
        "sh",
        "-c",
        'exec "$@" <&- >&- 2>&-',
        "sh",
        CHECKOUT / "twins",
        "exec",
        "ft",
        "python",
        "-c",
        code,
    ]
    assert subprocess.run(line, env=shell_environment).returncode == 0


def test_no_program_of_ours_ends_at_a_prompt(shell_environment):
    line, variables = (
        [CHECKOUT / "twins", "bench", "--list"],
        {**shell_environment, "PYTHONINSPECT": "1"},
    )
    done = subprocess.run(
        line, env=variables, input="print('a', 'prompt')", capture_output=True, text=True
    )
    assert done.returncode == 0 and "a prompt" not in done.stdout and ">>>" not in done.stderr


KEPT = """
    PYTHONPATH PYTHON_GIL PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 PYTHONCOERCECLOCALE PYTHONDONTWRITEBYTECODE
    PYTHONPYCACHEPREFIX PYTHONUNBUFFERED PYTHONNOUSERSITE PYTHONSTARTUP PYTHON_HISTORY PYTHON_BASIC_REPL
    PYTHONBREAKPOINT PYTHONCASEOK PYTHONFAULTHANDLER PYTHONINTMAXSTRDIGITS PYTHONNODEBUGRANGES
    PYTHON_DISABLE_REMOTE_DEBUG
"""
HOSTILE = {
    **dict.fromkeys(CLEARED, "1"),
    "PYTHONHOME": "/nowhere",
    "PYTHONPLATLIBDIR": "nowhere",
    "PYTHONWARNINGS": "error",
    "PYTHONMALLOC": "debug",
    "PYTHON_FROZEN_MODULES": "off",
    "PYTHON_TLBC": "0",
}


def test_every_variable_of_python_is_cleared_or_known_to_say_nothing():
    listed = subprocess.run(
        [sys.executable, "--help-env"], capture_output=True, text=True, check=True
    ).stdout
    names = set(re.findall(r"^(PYTHON\w+) *:", listed, re.MULTILINE))
    assert len(names) > 25 and names <= {*CLEARED, *KEPT.split()}


@pytest.mark.parametrize(
    "command", [["bench", "--list"], ["audit", "data.py:numbers", "--json"], ["info", "--json"]]
)
def test_variables_of_python_do_not_change_what_is_said(twins, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.py").write_text(
        "import os, sys\nassert sys.flags.optimize == 0\nnumbers = list(range(64))\n"
    )
    plain, hostile = twins(*command), twins(*command, **HOSTILE)
    assert (hostile.returncode, hostile.stderr) == (plain.returncode, plain.stderr), hostile
    said = [re.sub(r"\d+", "N", each.stdout) for each in (plain, hostile)]
    assert said[0] == said[1]


def test_dask_may_come_from_pythonpath(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(TwinsError, match="--dask needs Dask"):
        cli._python_with_dask()
    (tmp_path / "distributed").mkdir()
    (tmp_path / "distributed" / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert cli._python_with_dask() == sys.executable


def test_a_command_of_the_users_gets_the_variables_of_python(twins):
    code = "import sys; print(sys.flags.optimize, sys.flags.safe_path, sys.flags.dev_mode)"
    variables = {
        "PYTHONOPTIMIZE": "2",
        "PYTHONSAFEPATH": "1",
        "PYTHONDEVMODE": "1",
        "PYTHONHOME": "/nowhere",
    }
    assert twins("exec", "ft", "python", "-c", code, **variables).stdout == "2 True True\n"


@pytest.mark.parametrize(
    ("verb", "said"),
    [("frobnicate", "choose from"), ("benhc", "there is no verb 'benhc': did you mean 'bench'?")],
)
def test_unknown_verb_is_a_usage_error(twins, verb, said):
    done = twins(verb, status=2)
    assert verb in done.stderr and "bench" in done.stderr and said in done.stderr


def test_an_interrupted_verb_says_so_in_a_line(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_info", interrupted)
    assert cli.main(["info"]) == 130
    assert capsys.readouterr().err == "\n./twins info: interrupted\n"


@pytest.mark.parametrize(
    ("twin", "disabled", "enabled"), [("ft", "1", "False"), ("gil", "0", "True")]
)
def test_exec_runs_in_the_twin(twins, output_of, twin, disabled, enabled):
    code = "print(sysconfig.get_config_var('Py_GIL_DISABLED'), sys._is_gil_enabled())"
    assert output_of(twin, f"import sys, sysconfig, loader, bench; {code}").split() == [
        disabled,
        enabled,
    ]
    # The environment is complete, except for triton (docker/requirements.in says why).
    done = twins("exec", twin, "pip", "check")
    assert (
        done.stdout.strip() == f"torch {locked('torch')} requires triton, which is not installed."
    )


def test_a_notebooks_backend_of_matplotlib_stays_in_its_environment(twins):
    # what ipykernel sets, and the twins have no such module
    backend = "module://matplotlib_inline.backend_inline"
    twins("exec", "ft", "python", "-c", "import matplotlib.figure", MPLBACKEND=backend, status=0)


@pytest.mark.parametrize("twin", ["ft", "gil"])
def test_freed_memory_is_kept_for_a_second_unless_the_user_says_otherwise(twins, output_of, twin):
    code = "import os; print(os.environ['MIMALLOC_PURGE_DELAY'])"
    assert output_of(twin, code).strip() == build.PURGE_DELAY
    done = twins("exec", twin, "python", "-c", code, MIMALLOC_PURGE_DELAY="25")
    assert done.stdout.strip() == "25"


def test_images_keep_freed_memory_as_long():
    for twin in ("ft", "gil"):
        assert (
            f"MIMALLOC_PURGE_DELAY={build.PURGE_DELAY}\n"
            in (CHECKOUT / f"Dockerfile.{twin}").read_text()
        )


def test_exec_passes_the_exit_code_on(twins):
    assert twins("exec", "gil", "python", "-c", "import sys; sys.exit(7)").returncode == 7
    assert twins("exec", "gil", "sh", "-c", "kill -TERM $$").returncode == -15


def test_exec_of_nothing_says_what_to_do(twins):
    done = twins("exec", "ft")
    assert done.returncode == 2 and "./twins exec ft python" in done.stderr
    done = twins("exec", "ft", "no-such-program")
    assert done.returncode == 127 and "no-such-program" in done.stderr


def test_second_use_starts_at_once(twins):
    def cpu_seconds(use):
        """Return the least of three, because caches may be cold at first."""
        found = []
        for _ in range(3):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert use().returncode == 0
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(found)

    python = cpu_seconds(lambda: subprocess.run([sys.executable, "-c", ""]))
    assert cpu_seconds(lambda: twins("exec", "ft", "true")) < 15 * python


def test_info_shows_lines_as_they_are_known(start_twins):
    """Those of the first twin come before any package is imported,
    and both twins are described at once.
    """
    process = start_twins("info", "--packages")
    lines = iter(process.stdout.readline, "")
    assert next(lines).startswith("== ft: ") and next(lines).startswith("Python ")
    assert process.poll() is None
    rest = list(lines)
    assert process.wait() == 0
    second = next(at for at, line in enumerate(rest) if line.startswith("== gil: "))
    for part, gil in ((rest[:second], "off"), (rest[second:], "on")):
        assert [line for line in part if line.startswith("numpy ") and line.endswith(f" {gil}\n")]
    assert all(line == line.rstrip() + "\n" for line in rest)


def test_info_tells_what_the_twins_are(twins):
    done = twins("info", "--json", status=0)
    info = json.loads(done.stdout)
    assert set(info) == {"ft", "gil"}
    for twin in ("ft", "gil"):
        interpreter = info[twin]["interpreter"]
        assert interpreter["twin"] == twin
        assert ("--disable-gil" in interpreter["config_args"]) == (twin == "ft")
        states = {
            package["name"]: package["gil_enabled_after_import"]
            for package in info[twin]["imports"]
        }
        assert set(states.values()) == {twin == "gil"} and "torch" in states


def test_wrong_series_is_named(twins):
    done = twins("info", PYTHON_SERIES="3.12", status=2)
    assert "3.12" in done.stderr and "3.13" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "pilow"], "did you mean 'pillow'"),
        (["bench", "--twin", "ft=x"], "--twin is not needed: both are measured"),
        (
            ["bench", "--out", "/dev/null/results"],
            "cannot write results to /dev/null/results; name another directory with --out",
        ),
        (["bench", "--dataset", f"{json.__file__}:dumpz"], "has no dumpz: did you mean 'dump'?"),
        (["bench", "report"], "usage: ./twins bench report "),
        (["bench", "compare", "a"], "usage: ./twins bench compare "),
        (["bench", "merge"], "usage: ./twins bench merge "),
        (["audit", "gil", "no-colon"], "is not FILE.py:NAME"),
        (["audit", "gil", "no_such_file.py:x"], "there is no file"),
        (["test", "nope"], "./twins test: there is no file or folder nope (./twins test --help"),
        (["test", "gli"], "no file or folder gli: did you mean 'gil'?"),
        (["test", "-k", "order", "tests/nativ"], "tests/nativ: did you mean 'tests/native'?"),
        (["test", "ft", "-x", "tests/unit/nope.py::test"], "no file or folder tests/unit/nope.py"),
        (["repro", "/no/such/bug.py"], "there is no script /no/such/bug.py"),
        (["repro", "/dev/null"], "is no file"),
        (["repro"], "SCRIPT"),
        (["repro", "x.py", "--threads", "0"], "from 1 to"),
        (["repro", "x.py", "--timeout", "soon"], "seconds"),
        (["setup", "--quick"], "unrecognized arguments: --quick"),
        (["info", "--import"], "--import needs --requirements"),
        (["clean", "all"], "unrecognized arguments: all"),
    ],
)
def test_wrong_usage_is_refused_before_anything_is_built(twins, tmp_path, arguments, said):
    done = twins(*arguments, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 2 and said in done.stderr
    # Whatever finds the fault, its message begins with the command.
    assert done.stderr.splitlines()[-1].startswith(f"./twins {arguments[0]}")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.access("/", os.W_OK), reason="root writes everywhere")
def test_bench_builds_nothing_for_results_that_it_may_not_write(twins, tmp_path):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    done = twins(
        "bench", "--quick", "--out", str(locked / "results"), XDG_CACHE_HOME=str(tmp_path / "cache")
    )
    assert done.returncode == 2 and f"cannot write results to {locked}/results" in done.stderr
    assert list(tmp_path.iterdir()) == [locked]


def test_bench_offers_no_choice_of_twins(twins):
    done = twins("bench", "--help")
    assert (
        done.returncode == 0 and "--twin" not in done.stdout and "measured alone" not in done.stdout
    )


def test_audit_of_a_dataset_of_the_callers_folder(twins, tmp_path):
    (tmp_path / "numbers.py").write_text("data = list(range(10))\n")
    done = twins("audit", f"{tmp_path / 'numbers.py'}:data", "--seconds", "1", status=0)
    assert "verdict: nothing was found" in done.stdout
