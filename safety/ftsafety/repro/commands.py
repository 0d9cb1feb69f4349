"""Shell commands for the report. Pasted into a shell in the current directory,
they repeat the runs.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace

from ftrun.configurations import CONFIGURATIONS, Configuration
from ftrun.project import ROOT
from ftsafety.repro.campaign import Runs, twin_of
from ftsafety.repro.options import Options
from ftsafety.repro.script import FILE, MODULE, Script, shell_path

SERIES = ("3.13", "3.14")
"""The series of CPython that twins can be built of."""
HERE = "{}.{}".format(*sys.version_info)
"""The series of the Python that runs this process. The twins are of this series too."""
_CONTAINER = "docker compose run --rm -T ft-repro"


def of_series(which: str, command: str) -> str:
    """Return the shell command *command*, changed so that it uses the twins
    of the CPython series *which*.
    """
    return f"PYTHON_SERIES={which} {command.removeprefix(_prefix())}"


def _prefix() -> str:
    """Return the shell assignment PYTHON_SERIES=... for this process's series of CPython; "" if it
    is the default.
    """
    default = ROOT / "docker" / "python-series"
    other = HERE in SERIES and default.exists() and default.read_text().strip() != HERE
    return f"PYTHON_SERIES={HERE} " if other else ""


def program() -> str:
    """Return the start of a shell command that calls `./twins`:
    by a relative path if that needs no "..".
    """
    if not (ROOT / "twins").exists():
        return "./twins"
    path = os.path.relpath(ROOT / "twins")
    return _prefix() + (
        shell_path(str(ROOT / "twins")) if path.startswith("..") else shlex.quote(f"./{path}")
    )


def start(walled: bool) -> str:
    """Return the start of a shell command that calls `repro`, in a container if *walled*."""
    return f"{_prefix()}{_CONTAINER}" if walled else f"{program()} repro"


def repro(options: Options) -> str:
    """Return the shell command that calls `repro` with these options."""
    words = [shlex.quote(word) for word in options.command_line()]
    script = options.script
    if options.walled and script.how == FILE and not script.files and not _is_packed(script):
        return f"{start(True)} {' '.join(['-', *words])} <{script.argument}"
    if options.path is not None:
        words.insert(0, script.argument if options.path == "-" else shell_path(options.path))
    return " ".join([start(options.walled), *words])


def one_run(
    options: Options,
    runs: Runs,
    descriptions: Mapping[str, dict],
    versions: Mapping[str, str],
    added: bool = False,
) -> str:
    """Return shell commands that repeat one run in the configuration of `runs`: with `./twins` and,
    if possible, uv.

    Args:
        versions: versions of the packages that the script imports, for the command with uv.
        added: True if packages were installed for the script; the command then installs them too.
    """
    config = CONFIGURATIONS.get(runs.config)
    if config is None:
        return repro(replace(options, repeat=1))
    with_repro = repro(replace(options, repeat=1, configs=(config.name,)))
    if options.walled:
        return with_repro
    script = options.script
    plain = _plain_command(script, shell_path(script.name) if options.module else script.argument)
    if plain is None:
        return with_repro
    variables = _variables(options, config, runs)
    redirection = f" <{shell_path(options.stdin)}" if options.stdin else ""
    with_twins = with_repro
    if script.how == FILE and not added and not options.beside:
        with_twins = f"{variables} {program()} exec {config.twin} {plain}{redirection}"
    folder = _folder(options)
    # Plain Python finds files beside the script only where they are beside it already,
    # and in that folder.
    if any(os.path.dirname(path) != folder for path in options.beside):
        return with_twins
    series = descriptions[twin_of(runs.config)]["interpreter"]["version"].rpartition(".")[0]
    suffix, build = ("t", " that is free-threaded") if config.twin == "ft" else ("", "")
    if folder and script.how != MODULE:
        plain = _plain_command(script, shell_path(script.name)) or plain
    words = [variables, "uv run --no-project --python", series + suffix, *_pins(versions), plain]
    with_uv = _in_folder(" ".join(words), folder, redirection)
    return f"{with_twins}\n\n# the same with any CPython {series}{build}:\n{with_uv}"


def _variables(options: Options, config: Configuration, runs: Runs) -> str:
    """Return the assignments of environment variables for a run in *config*."""
    variables = f"REPRO_THREADS={options.threads}"
    if config.python_gil is not None and (config.name != "ft" or runs.forced_off):
        variables += f" PYTHON_GIL={config.python_gil}"
    return variables


def _in_folder(command: str, folder: str, redirection: str) -> str:
    """Return the shell command, run in *folder*, with its *redirection*,
    which names a file for this directory.
    """
    if folder:
        command = f"cd {shell_path(folder)} && {command}"
    if folder and redirection:
        command = f"({command})"
    return f"{command}{redirection}"


def _pins(versions: Mapping[str, str]) -> list[str]:
    """Return options of uv that install these versions of packages."""
    words = []
    for name, version in versions.items():
        # A local version (2.10.0+cu128) is on no index.
        pin = f"{name}=={version.partition('+')[0]}"
        words.append(f"--with {shlex.quote(pin)}")
    return words


def _plain_command(script: Script, file: str) -> str | None:
    """Return the command that starts the script *file* without `repro`; None if the script is no
    plain Python file.
    """
    arguments = [shlex.quote(argument) for argument in script.arguments]
    if not script.path or script.left_out or _is_packed(script):
        return None
    if script.how == MODULE:
        return " ".join(["python -m", script.module, *arguments])
    return " ".join(["python" if script.how == FILE else "python -m pytest", file, *arguments])


def _is_packed(script: Script) -> bool:
    """True for a notebook or an archive, which `repro` cannot read from standard input."""
    return script.path.endswith((".ipynb", ".zip"))


def _folder(options: Options) -> str:
    """Return the folder in which to start the script without `repro`; "" for the current folder."""
    if options.module:
        return options.path or ""
    return os.path.dirname(options.script.path) if options.beside else ""
