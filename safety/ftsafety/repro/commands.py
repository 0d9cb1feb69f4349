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
from ftsafety.repro.campaign import Runs
from ftsafety.repro.markdown import SUFFIXES
from ftsafety.repro.options import ReproOptions
from ftsafety.repro.script import FILE, MODULE, TESTS, Script, shell_path

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
    file = ROOT / "docker" / "python-series"
    if HERE not in SERIES or not file.exists():
        return ""
    default = file.read_text().strip()
    return "" if default == HERE else f"PYTHON_SERIES={HERE} "


def program() -> str:
    """Return the start of a shell command that calls `./twins`:
    by a relative path if that needs no "..".
    """
    if not (ROOT / "twins").exists():
        return "./twins"
    path = os.path.relpath(ROOT / "twins")
    if path.startswith(".."):
        return f"{_prefix()}{shell_path(str(ROOT / 'twins'))}"
    return f"{_prefix()}{shlex.quote(f'./{path}')}"


def start(walled: bool) -> str:
    """Return the start of a shell command that calls `repro`, in a container if *walled*."""
    return f"{_prefix()}{_CONTAINER}" if walled else f"{program()} repro"


def repro(options: ReproOptions) -> str:
    """Return the shell command that calls `repro` with these options."""
    words = [start(options.walled)]
    script = options.script
    from_stdin = options.walled and _is_single_file(script)
    if from_stdin:
        words.append("-")
    elif options.path == "-":
        words.append(script.argument)
    elif options.path is not None:
        words.append(shell_path(options.path))
    words += map(shlex.quote, options.command_line())
    if from_stdin:
        words.append(f"<{script.argument}")
    return " ".join(words)


def _is_single_file(script: Script) -> bool:
    """Return True if a `repro` that reads this script from standard input can run it."""
    return script.how == FILE and not script.files and not _is_packed(script)


def one_run(
    options: ReproOptions,
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
    script = options.script
    if options.walled or not _is_plain(script):
        return with_repro
    variables = _variables(options, config, runs)
    with_twins = with_repro
    if script.how == FILE and not added and not options.beside:
        file = shell_path(script.name) if options.module else script.argument
        plain = _plain_command(script, file) + _redirection(options)
        with_twins = f"{variables} {program()} exec {config.twin} {plain}"
    if not _beside_already(options):
        return with_twins
    version = descriptions[config.twin]["interpreter"]["version"]
    series, _, _ = version.rpartition(".")
    build = " that is free-threaded" if config.twin == "ft" else ""
    start_of_uv = f"{variables} {_uv_command(series, config, versions)}"
    with_uv = _in_folder(start_of_uv, options)
    return f"{with_twins}\n\n# the same with any CPython {series}{build}:\n{with_uv}"


def _beside_already(options: ReproOptions) -> bool:
    """Return True if plain Python finds the files beside the script:
    those that are in the folder in which it starts the script.
    """
    folder = _folder(options)
    return all(os.path.dirname(path) == folder for path in options.beside)


def _uv_command(series: str, config: Configuration, versions: Mapping[str, str]) -> str:
    """Return the start of a command in which uv runs Python with these packages."""
    python = f"{series}t" if config.twin == "ft" else series
    return " ".join(["uv run --no-project --python", python, *_pins(versions)])


def _redirection(options: ReproOptions) -> str:
    return f" <{shell_path(options.stdin)}" if options.stdin else ""


def _variables(options: ReproOptions, config: Configuration, runs: Runs) -> str:
    """Return the assignments of environment variables for a run in *config*."""
    variables = f"REPRO_THREADS={options.threads}"
    if config.python_gil is not None and (config.name != "ft" or runs.forced_off):
        variables += f" PYTHON_GIL={config.python_gil}"
    return variables


def _in_folder(start: str, options: ReproOptions) -> str:
    """Return the shell command that starts the script in its folder.
    *start*: the start of the command, before ``python``.

    A redirection names a file for the current directory, not for the script's folder.
    """
    script = options.script
    folder = _folder(options)
    file = shell_path(script.name) if folder or options.module else script.argument
    command = f"{start} {_plain_command(script, file)}"
    redirection = _redirection(options)
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


def _is_plain(script: Script) -> bool:
    """Return True if Python can run the script without `repro`."""
    return bool(script.path) and not script.left_out and not _is_packed(script)


def _plain_command(script: Script, file: str) -> str:
    """Return the command that starts the script *file* without `repro`."""
    words = {
        FILE: ["python", file],
        MODULE: ["python -m", script.module],
        TESTS: ["python -m pytest", file],
    }
    arguments = map(shlex.quote, script.arguments)
    return " ".join([*words[script.how], *arguments])


def _is_packed(script: Script) -> bool:
    """True for what is not the script itself: a notebook, a Markdown text or an archive."""
    return script.path.endswith((".ipynb", ".zip", *SUFFIXES))


def _folder(options: ReproOptions) -> str:
    """Return the folder in which to start the script without `repro`; "" for the current folder."""
    if options.module:
        return options.path or ""
    return os.path.dirname(options.script.path) if options.beside else ""
