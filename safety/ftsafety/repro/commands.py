"""Shell commands for the report. Pasted into a shell in the current directory, they repeat the runs."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping

from ftrun.configurations import CONFIGURATIONS
from ftrun.project import ROOT
from ftsafety.repro.arguments import options_of
from ftsafety.repro.campaign import Runs, twin_of
from ftsafety.repro.script import FILE, MODULE, Script, shell_path

SERIES = ("3.13", "3.14")
"""The series of CPython that twins can be built of."""
HERE = "{}.{}".format(*sys.version_info)
"""The series of the Python that runs this process. The twins are of this series too."""
_CONTAINER = "docker compose run --rm -T ft-repro"


def of_series(which: str, command: str) -> str:
    """Return the shell command *command*, changed so that it uses the twins of the CPython series *which*."""
    return f"PYTHON_SERIES={which} {command.removeprefix(_prefix())}"


def _prefix() -> str:
    """Return the shell assignment PYTHON_SERIES=... for this process's series of CPython; "" if it is the default."""
    default = ROOT / "docker" / "python-series"
    other = HERE in SERIES and default.exists() and default.read_text().strip() != HERE
    return f"PYTHON_SERIES={HERE} " if other else ""


def program() -> str:
    """Return the start of a shell command that calls `./twins`: by a relative path if that needs no ".."."""
    if not (ROOT / "twins").exists():
        return "./twins"
    path = os.path.relpath(ROOT / "twins")
    return _prefix() + (shell_path(str(ROOT / "twins")) if path.startswith("..") else shlex.quote(f"./{path}"))


def start(walled: bool) -> str:
    """Return the start of a shell command that calls `repro`, in a container if *walled*."""
    return f"{_prefix()}{_CONTAINER}" if walled else f"{program()} repro"


def repro(given: argparse.Namespace, script: Script, options: list[str]) -> str:
    """Return the shell command that calls `repro` on the script. *options*: the command-line options for `repro`."""
    if given.walled and script.how == FILE and not script.files and not _packed(script):
        return f"{start(True)} {' '.join(['-', *map(shlex.quote, options)])} <{script.argument}"
    named = [] if given.script is None else [script.argument if given.script == "-" else shell_path(given.script)]
    return " ".join([start(given.walled), *named, *map(shlex.quote, options)])


def all_runs(given: argparse.Namespace, script: Script) -> str:
    """Return the shell command that repeats all runs."""
    return repro(given, script, options_of(given))


def one_run(
    given: argparse.Namespace,
    script: Script,
    runs: Runs,
    descriptions: Mapping[str, dict],
    versions: Mapping[str, str] | None = None,
    added: bool = False,
) -> str:
    """Return shell commands that repeat one run in the configuration of `runs`: with `./twins` and, if possible, uv.

    Args:
        versions: versions of the packages that the script imports, for the command with uv.
        added: True if packages were installed for the script; the command then installs them too.
    """
    config = CONFIGURATIONS.get(runs.config)
    if config is None:
        return repro(given, script, options_of(given, repeat=1))
    if given.walled:
        return repro(given, script, options_of(given, repeat=1, configs=(config.name,)))
    forces_gil = config.python_gil is not None and (config.name != "ft" or runs.forced_off)
    variables = f"REPRO_THREADS={given.threads}" + (f" PYTHON_GIL={config.python_gil}" if forces_gil else "")
    after = f" <{shell_path(given.stdin)}" if given.stdin else ""
    script_arguments = _what(script, shell_path(script.name) if given.module else script.argument)
    plain = script_arguments is not None and script.how == FILE and not added and not given.beside
    if plain:
        here = f"{variables} {program()} exec {config.twin} {script_arguments}{after}"
    else:
        here = repro(given, script, options_of(given, repeat=1, configs=(config.name,)))
    folder = _folder(given, script)
    # Plain Python finds files beside the script only where they are beside it already, and in that folder.
    if script_arguments is None or any(os.path.dirname(each) != folder for each in given.beside):
        return here
    python = descriptions[twin_of(runs.config)]["interpreter"]["version"].rpartition(".")[0]
    free, suffix = (" that is free-threaded", "t") if config.twin == "ft" else ("", "")
    # A local version (2.10.0+cu128) is on no index.
    pins = [
        f"--with {shlex.quote(f'{name}=={version.partition("+")[0]}')}" for name, version in (versions or {}).items()
    ]
    if folder and script.how != MODULE:
        script_arguments = _what(script, shell_path(script.name)) or script_arguments
    there = f"{variables} {' '.join([f'uv run --no-project --python {python}{suffix}', *pins, script_arguments])}"
    if folder:
        there = f"cd {shell_path(folder)} && {there}"
        if after:  # the file for standard input is named for this directory
            there = f"({there})"
    return f"{here}\n\n# the same with any CPython {python}{free}:\n{there}{after}"


def _what(script: Script, file: str) -> str | None:
    """Return the command that starts the script *file* without `repro`; None if the script is no plain Python file."""
    arguments = [shlex.quote(each) for each in script.arguments]
    if not script.path or script.left_out or _packed(script):
        return None
    if script.how == MODULE:
        return " ".join(["python -m", script.module, *arguments])
    return " ".join(["python" if script.how == FILE else "python -m pytest", file, *arguments])


def _packed(script: Script) -> bool:
    """True for a notebook or an archive, which `repro` cannot read from standard input."""
    return script.path.endswith((".ipynb", ".zip"))


def _folder(given: argparse.Namespace, script: Script) -> str:
    """Return the folder in which to start the script without `repro`; "" for the current folder."""
    if given.module:
        return given.script or ""
    return os.path.dirname(script.path) if given.beside else ""
