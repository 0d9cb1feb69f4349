"""Remedies for scripts that do not get to their bug: shell commands that get further."""

import os
import shlex
import sys
import sysconfig

import pytest

from ftsafety.repro import commands
from ftsafety.repro.blocked import reason, remedy
from ftsafety.repro.inputs import load
from ftsafety.repro.outcome import Blocker
from ftsafety.repro.script import Script
from ftsafety.repro.unbuilt import build_command
from tests.extension_modules import compiler
from tests.programs import completed

COMMENT = "   # once the script opens it without a folder"
PACKAGE = "   # if it is a package, not a file of yours"


@pytest.mark.parametrize(
    ("blocker", "command"),
    [
        (Blocker("module", "lxml"), "./twins repro x/bug.py --package lxml" + PACKAGE),
        (Blocker("module", "PIL"), "./twins repro x/bug.py --package pillow" + PACKAGE),
        (Blocker("file", "values.csv"), "./twins repro x/bug.py --with x/values.csv"),
        (Blocker("file", "data/a/b.csv"), "./twins repro x/bug.py --with x/data"),
        (Blocker("file", "images/"), "./twins repro x/bug.py --with x/images"),
        (Blocker("file", "~/data/"), "./twins repro x/bug.py --with data" + COMMENT),
        (Blocker("stdin", ""), "./twins repro x/bug.py --stdin FILE   # replace FILE"),
        (Blocker("listing", "data/#1/*.jpg"), "./twins repro x/bug.py --with x/data"),
        *(
            (Blocker("listing", pattern), "./twins repro x/bug.py --with FILE   # replace FILE")
            for pattern in ("*.jpg", "/data/*.jpg", "~/*", "../*", "d*ta/1", "$(true)?")
        ),
        (
            Blocker("arguments", "argv"),
            "./twins repro x/bug.py --arg A   # replace A; an option: --arg=--name",
        ),
        (
            Blocker("syntax", "bug.py, line 1: x = t'{1}'"),
            "PYTHON_SERIES=3.14 ./twins repro x/bug.py",
        ),
        (
            Blocker("syntax", "bug.py, line 4: except ValueError, TypeError:"),
            "PYTHON_SERIES=3.14 ./twins repro x/bug.py",
        ),
        (Blocker("syntax", "bug.py, line 1: x = = 1"), ""),
        (Blocker("version", "x"), "PYTHON_SERIES=3.14 ./twins repro x/bug.py"),
        (Blocker("gil", "x"), "./twins repro x/bug.py --configs ft"),
        (Blocker("relative", ""), "./twins repro . -m x.bug"),
        (Blocker("file", "/data/#1 a.csv"), "./twins repro x/bug.py --with '#1 a.csv'" + COMMENT),
        (Blocker("file", "/data/-x"), "./twins repro x/bug.py --with ./-x" + COMMENT),
        (Blocker("module", "lxml; true"), ""),
        *(
            (Blocker("file", name), "")
            for name in ("", ".", "/", "//", "..", "../x.csv", "/x/a\ntrue #", "a\nb")
        ),
    ],
)
@pytest.mark.slow
def test_remedies_are_commands(default_series, blocker, command):
    script = Script("bug.py", b"", "x/bug.py")
    assert remedy(blocker, script, "./twins repro x/bug.py", ["ft", "other"]) == command
    assert "\n" not in command and shlex.split(command, comments=True) == shlex.split(
        command.partition("   #")[0]
    )
    assert reason(blocker)


def test_a_module_beside_the_script_is_no_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x/parts").mkdir(parents=True)
    (tmp_path / "x/helper.py").touch()
    for name, path in (("helper", "x/helper.py"), ("parts", "x/parts")):
        for walled in (False, True):
            found = remedy(
                Blocker("module", name), Script("bug.py", b"", "x/bug.py"), "X", [], walled
            )
            assert found == f"X --with {path}"


C = """
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "counter", 0, 0, NULL};
PyMODINIT_FUNC PyInit_counter(void) { return PyModuleDef_Init(&definition); }
"""
SETUP = (
    "from setuptools import Extension, setup\n"
    "setup(ext_modules=[Extension('counter', ['counter.c'])])\n"
)
PROJECT = (
    "[project]\nname = 'x'\nversion = '1'\n[tool.setuptools]\n"
    "ext-modules = [{name='counter', sources=['counter.c']}]"
)


@pytest.mark.parametrize(
    "files",
    [{"setup.py": SETUP}, {"pyproject.toml": PROJECT}, {"setup.py": "setup(name='another')"}],
)
@pytest.mark.slow
def test_an_extension_module_beside_the_script_is_to_be_built(
    run_script, tmp_path, monkeypatch, files
):
    if compiler() is None or not os.path.exists(
        os.path.join(sysconfig.get_path("include"), "Python.h")
    ):
        pytest.skip("no C compiler, or no headers, to build an extension module with")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a b"
    folder.mkdir()
    for name, content in {
        "bug.py": "import counter, os\nprint(os.path.basename(counter.__file__))\n",
        "other.py": "",
        "counter.c": C,
        **files,
    }.items():
        (folder / name).write_text(content)
    script = load("a b/bug.py")
    blocker = run_script(script).blocker
    assert blocker == Blocker("module", "counter")
    line = remedy(blocker, script, "X", []).partition("   #")[0]
    words = shlex.split(line)
    build = words[words.index("-c") + 1]
    twins = [
        f"{commands.program()} exec {twin} sh -c {shlex.quote(build)}" for twin in ("ft", "gil")
    ]
    assert line == " && ".join([*twins, "X --with 'a b/counter'.*.so"])
    variables = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    completed(["sh", "-c", build], status=0, env=variables)
    (module,) = map(str, tmp_path.glob("a b/counter.*.so"))
    done = run_script(load("a b/bug.py", beside=[module]))
    assert done.stdout == f"{os.path.basename(module)}\n", done


@pytest.mark.parametrize(
    ("name", "content", "needed"),
    [("fast.pyx", "", True), ("setup.py", "import Cython; # fast", True), ("fast.c", "", False)],
)
def test_a_build_that_needs_a_package_installs_it_beside_the_source(
    tmp_path, name, content, needed
):
    (tmp_path / name).write_text(content)
    words = shlex.split(build_command("fast", str(tmp_path)))
    assert (
        "pip install --quiet --upgrade --target build/needed cython &&"
        in words[words.index("-c") + 1]
    ) is needed
    assert build_command("slow", str(tmp_path)) == ""


def test_no_remedy_holds_what_a_shell_would_run():
    name = "/x/a; b'$(c)\n`d` #"
    for cause in (
        "module file program readonly syntax relative stdin listing arguments gil version tests x"
    ).split():
        for about in (name, name.replace("\n", " "), name[1:].replace("\n", " ")):
            for path in ("", name, "x/a b.py", "a b/x.py", "bug.zip", "-/bug.py"):
                command = remedy(Blocker(cause, about), Script("bug.py", b"", path), "X", ["ft"])
                words = shlex.split(command, comments=True)
                assert not {"b", "d", "b'$(c)", "`d`"} & set(words) and "\n" not in command, command


def test_remedies_fit_the_twins(default_series):
    script, command = Script("bug.py", b"", "x/bug.py"), "docker"
    assert remedy(Blocker("module", "lxml"), script, command, [], True) == ""  # refused there
    container = "docker compose run --rm -T ft-repro"
    assert remedy(Blocker("relative", ""), script, command, [], True) == f"{container} . -m x.bug"
    packed = Script("x/bug.py", b"", "bug.zip")
    assert (
        remedy(Blocker("relative", ""), packed, command, [], True)
        == f"{container} bug.zip -m x.bug"
    )
    options = ["--repeat", "50", "--arg=a b"]
    found = remedy(Blocker("relative", ""), script, command, [], options=options)
    assert found == "./twins repro . -m x.bug --repeat 50 '--arg=a b'"
    given = Script("bug.py", b"", "x/bug.py", arguments=("A",), stdin=b"1\n")
    assert not remedy(Blocker("arguments", "x"), given, command, []) + remedy(
        Blocker("stdin", ""), given, command, []
    )
    assert (
        remedy(Blocker("version", "x"), script, command, [], False, "3.14")
        == "PYTHON_SERIES=3.13 docker"
    )
    assert remedy(Blocker("syntax", "x = t'1'"), script, command, [], False, "3.14") == ""


@pytest.mark.slow
def test_a_remedy_works(run_script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "bug.py").write_text(
        "from .settings import LIMIT\nprint(open('values.csv').read())\n"
    )
    (tmp_path / "pkg" / "settings.py").write_text("LIMIT = 3\n")
    (tmp_path / "values.csv").write_text("1\n")
    assert run_script(load("pkg/bug.py")).blocker == Blocker("relative", "")
    assert run_script(load(".", "pkg.bug")).blocker == Blocker("file", "values.csv")
    assert run_script(load(".", "pkg.bug", beside=["values.csv"])).stdout == "1\n\n"
