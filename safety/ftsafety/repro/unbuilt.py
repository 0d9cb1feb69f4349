"""The command that builds an extension module whose source lies beside the script."""

from __future__ import annotations

import contextlib
import os
import re
import shlex

from ftrun.configurations import TWIN
from ftsafety.repro.commands import program
from ftsafety.repro.script import shell_path

SOURCES = ("pyx", "c", "cc", "cpp", "cxx")
BUILD = "build_ext --inplace"
# Build requirements that the twins lack, to be installed beside the extension module's source.
NEEDED = ("cython", "pybind11")
NEEDED_FOLDER = "build/needed"


def build_command(name: str, folder: str) -> str:
    """Return the shell command that builds the extension module *name* in *folder* for both twins.

    Return "" if no source in *folder* mentions the module.
    """
    setup = _text(os.path.join(folder, "setup.py"))
    project = _text(os.path.join(folder, "pyproject.toml"))
    source = _source(name, folder)
    build = _build(name, setup, project, source)
    if not build:
        return ""
    mentions = f"{setup} {project}".lower()
    if source.endswith(".pyx"):
        mentions += " cython"
    build = _with_requirements(mentions, build)
    if folder:
        build = f"cd {shell_path(folder)} && {build}"
    quoted = shlex.quote(build)
    twins = sorted(set(TWIN.values()))
    return " && ".join(f"{program()} exec {twin} sh -c {quoted}" for twin in twins)


def _with_requirements(mentions: str, build: str) -> str:
    """Return the command *build* after the installation of the requirements that the build files
    mention.
    """
    requirements = [requirement for requirement in NEEDED if requirement in mentions]
    if not requirements:
        return build
    install = (
        f"python -m pip install --quiet --upgrade --target {NEEDED_FOLDER} {' '.join(requirements)}"
    )
    return f"{install} && PYTHONPATH={NEEDED_FOLDER} {build}"


def _source(name: str, folder: str) -> str:
    """Return the name of the extension module's source file in *folder*; "" if there is none."""
    for suffix in SOURCES:
        file = f"{name}.{suffix}"
        if os.path.exists(os.path.join(folder, file)):
            return file
    return ""


def _build(name: str, setup: str, project: str, source: str) -> str:
    """Return the command that builds the module *name* in its folder;
    "" if none of its files is for that.

    *setup*, *project*: the contents of setup.py and pyproject.toml.
    *source*: the name of the source file.
    """
    word = re.compile(rf"\b{re.escape(name)}\b")
    if word.search(setup):
        return f"python setup.py {BUILD}"
    if word.search(project) and "ext-modules" in project:
        # With no modules given, setuptools looks for them, and refuses a folder that has several.
        return f"python -c 'from setuptools import setup; setup(py_modules=[])' {BUILD}"
    if source:
        code = (
            f"from setuptools import Extension, setup; "
            f"setup(ext_modules=[Extension({name!r}, [{source!r}])])"
        )
        return f"python -c {shlex.quote(code)} {BUILD}"
    return ""


def built(name: str, folder: str) -> str:
    """Return the shell's pattern for the files of the extension module *name* in *folder*, one file
    for each twin.
    """
    return f"{shell_path(os.path.join(folder, name))}.*.so"


def _text(path: str) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError), open(path, encoding="utf-8") as file:
        return file.read()
    return ""
