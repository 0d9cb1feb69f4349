"""Missing Debian packages: `./twins` asks, installs or prints the command, depending on the user
and the terminal.
"""

import os
import pty
import select
import shutil
import subprocess
import tempfile

import pytest

from native import TwinsError, machine
from tests.checkout import CHECKOUT
from tests.programs import completed

pytestmark = pytest.mark.slow

TWINS = CHECKOUT / "twins"
WANTED = (CHECKOUT / "docker" / "build-packages.txt").read_text().split()


def test_missing_packages_come_as_one_command(shell_environment):
    if os.geteuid() != 0:
        pytest.skip("dropping to another user needs root")
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    if subprocess.run([*nobody, "test", "-x", TWINS]).returncode:
        pytest.skip(f"another user cannot reach {TWINS}")
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        # dpkg's view of a machine on which nothing is installed.
        for name in ("updates", "info"):
            os.mkdir(os.path.join(directory, name))
        open(os.path.join(directory, "status"), "w").close()
        done = completed(
            [*nobody, TWINS, "setup"],
            env={
                **shell_environment,
                "XDG_CACHE_HOME": directory,
                "DPKG_ADMINDIR": directory,
                "PATH": "/usr/bin:/bin",
                "PYTHON_FROM": "source",
            },
        )
    assert done.returncode == 3, done.stderr
    command = next(
        line
        for line in done.stderr.splitlines()
        if "sudo apt-get install" in line or "&& sudo" in line
    )
    assert "build-essential" in command and "libssl-dev" in command


def read_question(terminal):
    """Return what a pseudo-terminal shows up to "[y/N]",
    or all of it if that does not come within minutes.
    """
    shown = ""
    # What is written at one end arrives at the other a moment later.
    while "[y/N]" not in shown and select.select([terminal], [], [], 300)[0]:
        shown += os.read(terminal, 1 << 16).decode()
    return shown


@pytest.mark.parametrize(
    ("agreed", "variable", "typed", "installs"),
    [
        (False, None, None, True),  # no terminal to ask at
        (True, None, None, True),
        (False, "true", None, True),
        (False, None, "n\n", False),
        (False, None, "\n", False),
        (False, None, "\4", False),  # Ctrl-D
        (False, None, "y\n", True),
    ],
)
def test_root_is_asked_at_a_terminal(
    monkeypatch, capsys, tmp_path, agreed, variable, typed, installs
):
    if os.geteuid() != 0:
        pytest.skip("others are told what to type")
    for name in ("updates", "info"):
        (tmp_path / name).mkdir()
    (tmp_path / "status").touch()
    monkeypatch.setenv("DPKG_ADMINDIR", str(tmp_path))
    monkeypatch.setenv("CI", variable) if variable else monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    ours, theirs = pty.openpty()
    with (
        open(ours, "r+b", buffering=0) as person,
        open(theirs) as keyboard,
        os.fdopen(os.dup(theirs), "w") as screen,
        open(os.devnull) as nothing,
    ):
        monkeypatch.setattr("sys.stdin", keyboard if typed else nothing)
        if typed:
            monkeypatch.setattr("sys.stderr", screen)
            person.write(typed.encode())
        if installs:
            assert machine.install_command(["gcc", "make"], agreed)[-2:] == ["gcc", "make"]
        else:
            with pytest.raises(
                TwinsError, match="apt-get install -y --no-install-recommends gcc make"
            ):
                machine.install_command(["gcc", "make"], agreed)
        if typed:
            screen.flush()
            shown = read_question(ours)
        else:
            shown = capsys.readouterr().err
    assert ("these system packages: gcc make" in shown) == (not agreed and not variable)
    assert ("Install them?" in shown) == bool(typed)


def test_a_question_that_nobody_would_see_is_not_asked(monkeypatch, capsys):
    ours, theirs = pty.openpty()
    with open(ours, "wb", buffering=0), open(theirs) as keyboard:
        monkeypatch.setattr("sys.stdin", keyboard)
        monkeypatch.delenv("JPY_PARENT_PID", raising=False)
        assert machine._agrees(["gcc"]) is False
    assert "gcc" in capsys.readouterr().err


@pytest.fixture
def notebook():
    """A pseudo-terminal as that in which IPython runs `!./twins ...`.
    A question would be answered with no.
    """
    ours, theirs = pty.openpty()
    with open(ours, "wb", buffering=0) as person, open(theirs, "w+b", buffering=0) as terminal:
        person.write(b"n\n")
        yield terminal


def test_a_notebook_is_not_asked(monkeypatch, notebook):
    monkeypatch.setenv("JPY_PARENT_PID", "1")
    monkeypatch.setattr("sys.stdin", notebook)
    with open(os.dup(notebook.fileno()), "w") as screen:
        monkeypatch.setattr("sys.stderr", screen)
        assert machine._agrees(["gcc"]) is True


def test_a_notebook_without_python_is_not_asked(bare, notebook):
    environment = {**bare(0), "JPY_PARENT_PID": "1"}
    start_without_python(environment, 0, stdin=notebook, stderr=notebook, stdout=subprocess.PIPE)


@pytest.fixture
def bare(tmp_path):
    """A PATH with what the shell script ./twins needs,
    without python3; `bare(uid, apt)` completes it.
    """

    def program(name, *lines):
        path = tmp_path / name
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
        path.chmod(0o755)

    def bare(uid, apt=True):
        for name in ("dirname", "tr", "chmod"):
            (tmp_path / name).symlink_to(shutil.which(name))
        program("id", f"echo {uid}")
        if apt:
            python = tmp_path / "python3"
            program(
                "apt-get",
                f'echo apt-get "$@" >>{tmp_path}/apt.log',
                # The new python3 passes the check of its version and says how it was started.
                'case "$*" in *" install "*)',
                f'printf \'#!/bin/sh\\n[ "$2" = -c ] || echo runs "$@"\\n\' >{python}; chmod '
                f"+x {python} ;; esac",
            )
        return {"PATH": str(tmp_path)}

    return bare


def start_without_python(environment, status, **streams):
    return completed(["/bin/sh", TWINS, "bench", "--quick"], status, env=environment, **streams)


def test_without_python_a_user_is_told_all_that_a_build_needs_in_one_line(bare):
    done = start_without_python(bare(1000), status=3)
    (line,) = done.stderr.splitlines()
    assert (
        "sudo apt-get update && sudo apt-get install -y --no-install-recommends python3 "
        "python3-venv " in line
    )
    assert set(WANTED) < set(line.split())


@pytest.mark.parametrize("uid", [0, 1000])
def test_without_python_and_apt_docker_is_named(bare, uid):
    done = start_without_python(bare(uid, apt=False), status=3)
    assert "Python 3.9 or newer" in done.stderr and "docker compose" in done.stderr
    assert "apt" not in done.stderr


def test_without_python_and_terminal_root_installs_it_and_goes_on(bare, tmp_path):
    done = start_without_python(bare(0), status=0)
    assert "installing python3" in done.stderr
    assert (
        "apt-get -q install -y --no-install-recommends python3\n"
        in (tmp_path / "apt.log").read_text()
    )
    assert done.stdout == f"runs -E -B {CHECKOUT}/native bench --quick\n"


@pytest.mark.parametrize(
    ("typed", "installs"), [("y\n", True), ("n\n", False), ("\n", False), ("\4", False)]
)
def test_without_python_root_is_asked_at_a_terminal(bare, tmp_path, typed, installs):
    ours, theirs = pty.openpty()
    with open(ours, "r+b", buffering=0) as person, open(theirs, "w+b", buffering=0) as terminal:
        person.write(typed.encode())
        status = 0 if installs else 3
        start_without_python(
            bare(0), status, stdin=terminal, stderr=terminal, stdout=subprocess.PIPE
        )
        shown = read_question(ours)
    assert "Install python3? [y/N]" in shown
    assert (tmp_path / "apt.log").exists() == installs
