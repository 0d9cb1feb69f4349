"""The commands that a report names, to repeat all runs or one."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping

from ftrun.configurations import CONFIGURATIONS
from ftsafety.repro.arguments import options_of
from ftsafety.repro.campaign import Runs
from ftsafety.repro.request import Script

_CONTAINER = "docker compose run --rm -T ft-repro -"


def all_runs(given: argparse.Namespace, script: Script) -> str:
    """Return the command that repeats all runs."""
    if given.walled:
        return f"{_CONTAINER} {shlex.join(options_of(given))} <{shlex.quote(script.argument)}"
    return f"./twins repro {shlex.join([script.argument, *options_of(given)])}"


def one_run(given: argparse.Namespace, script: Script, runs: Runs, descriptions: Mapping[str, dict]) -> str:
    """Return the command for one run in the configuration of `runs`."""
    config = CONFIGURATIONS[runs.config]
    threads, name = given.threads, shlex.quote(script.argument)
    if given.walled:
        options = f"--configs {config.name} --threads {threads} --timeout {given.timeout:g} --repeat 1"
        return f"{_CONTAINER} {options} <{name}"
    forces_gil = config.python_gil is not None and (config.name != "ft" or runs.forced_off)
    variables = f"REPRO_THREADS={threads}" + (f" PYTHON_GIL={config.python_gil}" if forces_gil else "")
    # For readers of the issue who do not have these tools.
    version = descriptions[config.twin]["interpreter"]["version"].rpartition(".")[0]
    free, suffix = (" that is free-threaded", "t") if config.twin == "ft" else ("", "")
    return (
        f"{variables} ./twins exec {config.twin} python {name} {threads}\n\n"
        f"# the same with any CPython {version}{free}:\n{variables} python{version}{suffix} {name} {threads}"
    )
