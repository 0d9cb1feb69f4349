"""The command line of repro: its options, and the script that it asks to run.

`./twins repro` checks its arguments with this module before it builds the twins, so that a typing
error does not cost ten minutes. So the module runs on Python 3.9 and needs no installed package.
"""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ftrun import host
from ftrun.options import add_all, configurations, endpoint, number, whole
from ftsafety.errors import CommandLineError
from ftsafety.repro.inputs import KIB, LARGEST_SENT, load
from ftsafety.repro.options import REPEATED, ReproOptions
from ftsafety.repro.script import Script

PROGRAM = host.command("./twins repro")

DESCRIPTION = """\
Run a script many times in each of three configurations and say where it fails:

  gil      the build with the GIL
  ft-gil   the free-threaded build with the GIL forced on (PYTHON_GIL=1)
  ft       the free-threaded build, the GIL off

Each run is a process of its own with a time limit. A run fails if the script exits with a status other than 0
(its own check of its result), raises an exception (in any thread), is killed by a signal, or does not end
in time; then the stacks of all threads are dumped before it is killed. The configurations take turns.
A difference between them is reported only if Fisher's exact test finds it significant. Fewer runs are made once
the verdict is settled. What a limit ended is not counted as a failure.

What is printed is Markdown, ready to be pasted into an issue. SCRIPT is a Python file, a notebook, a file of
tests for pytest (test_*.py), a .zip of a script and its files, or an issue's text (.md), whose first Python block
is run. It gets the number of threads in the variable REPRO_THREADS. Each run starts in a folder of its own, which holds copies of the script and of what --with names.
Packages that the twins do not have are named in the script's inline metadata (PEP 723), or by --package:

  # /// script
  # dependencies = ["h5py"]
  # ///
"""

_NATIVE = """  ./twins repro repro/counter_increment.py
  ./twins repro bug.py --threads 8 --repeat 50 --timeout 20 --out report.md
  ./twins repro bug.py --shrink-threads            the smallest number of threads that still fails
  ./twins repro bug.py --arg 8 --arg=--fast --with values.csv --stdin answers.txt
  ./twins repro bug.py --repeat 10000 --dask tcp://HOST:8786       on the workers of a Dask cluster (docs/scale.md)
  ./twins repro -m package.bug                     as python -m package.bug, in the folder that holds package/
"""
_CONTAINED = f"""\
  {PROGRAM} repro/counter_increment.py --threads 8 --repeat 50 --timeout 20
  {PROGRAM} repro/counter_increment.py --shrink-threads
"""
EPILOG = f"""\
examples:
{_CONTAINED if "FT_COMMAND" in os.environ else _NATIVE}\
  docker compose run --rm ft-repro repro/counter_increment.py      behind walls: no network, read-only, ...
  docker compose run --rm -T ft-repro - <bug.py                    any script, from standard input

WITHOUT DOCKER THERE ARE NO WALLS: the script runs as you, with your permissions; with --dask, as the workers' user.
Time, memory, processes, output and its scratch folder are limited, which stops accidents, not malice.

exit status:
  0   not reproduced: all runs were made, and none failed
  10  fails only without the GIL              11  fails on the free-threaded build, even with the GIL on
  12  fails everywhere                        13  fails in another pattern, or too rarely or in too few
                                                  configurations to tell where
  14  cannot be judged: no run failed, and a configuration was not run, or not to the end
  15  did not get to its bug: each run ended before anything could race; the report names the remedy
  1   the runs could not be made              2   wrong usage, or no script to read
  130, 143  interrupted (runs made until then are reported)
"""


BESIDE = "files and folders to put beside the script, read-only"
DASK = (
    "a scheduler's address (tcp://HOST:8786) or scheduler file; needs distributed in the "
    "Python that runs ./twins"
)
INTERPRETER = (
    "further interpreters to run it with: another series, a debug or sanitizer build, one "
    "without patches"
)
_SECONDS = number("a number of seconds (0.1 or more)", 0.1, 1e6)
_MIB = whole(1, 1 << 20)
_TIMEOUT = "a run that takes longer counts as a hang, unless it is slow"
_BUDGET = "time for all runs together; runs made until then are reported"
_RUNS = (
    (
        "--threads",
        whole(1, 1024),
        ReproOptions.threads,
        "N",
        "threads that the script is asked to start, in REPRO_THREADS",
    ),
    ("--repeat", whole(1, 10_000), ReproOptions.repeat, "N", "runs in each configuration"),
    ("--timeout", _SECONDS, ReproOptions.timeout, "SECONDS", _TIMEOUT),
    ("--budget", _SECONDS, ReproOptions.budget, "SECONDS", _BUDGET),
)
_LIMITS = (
    (
        "--memory",
        whole(64, 1 << 20),
        ReproOptions.memory,
        "MIB",
        "memory of all its processes together",
    ),
    ("--processes", whole(1, 100_000), ReproOptions.processes, "N", "processes at once"),
    ("--disk", _MIB, ReproOptions.disk, "MIB", "what it may write into its scratch folder"),
    ("--output", _MIB, ReproOptions.output, "MIB", "what it may print"),
)


def scheduler(place: str) -> str:
    """Return *place*, the address of a Dask scheduler or the path of its scheduler file.

    Raises ArgumentTypeError if *place* is no address and there is no such file.
    """
    # With a protocol, or HOST:PORT.
    if place.isprintable() and (
        re.fullmatch(r"\w+://.+|[^/]+:\d+", place) or os.path.isfile(place)
    ):
        return place
    raise argparse.ArgumentTypeError(
        f"{place!r} is no address, such as tcp://HOST:8786, and there is no such file: name the "
        "address that the scheduler prints when it starts, or the file that `dask scheduler "
        "--scheduler-file FILE` writes"
    )


def parser(prog: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the parser of the command line. *prog*:
    the name of the command in help and messages.
    """
    result = argparse.ArgumentParser(
        prog=prog,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = result.add_argument
    script = "the script (see above); - reads it from standard input; with -m a folder"
    add("path", nargs="?", metavar="SCRIPT", help=script)
    module = "run a module of the folder SCRIPT (default: .) as python -m does"
    add("-m", dest="module", metavar="MODULE", help=module)
    several: dict[str, Any] = {"action": "append", "default": []}
    argument = "an argument of the script; can be repeated"
    add("--arg", dest="arguments", **several, metavar="A", help=argument)
    more: dict[str, Any] = {"action": "extend", "nargs": "+", "default": []}
    add("--with", dest="beside", **more, metavar="FILE", help=BESIDE)
    add(
        "--stdin",
        metavar="FILE",
        help="what the script reads from standard input (default: nothing)",
    )
    package = "a package that the script needs"
    add("--package", dest="packages", **several, metavar="REQUIREMENT", help=package)
    add_all(result, _RUNS)
    add(
        "--every-run", action="store_true", help="make all runs, also when fewer settle the verdict"
    )
    add("--interpreter", dest="interpreters", **more, metavar="PATH", help=INTERPRETER)
    add("--out", type=Path, metavar="FILE", help="also write the report to FILE")
    names: dict[str, Any] = {
        "type": configurations,
        "default": ReproOptions.configs,
        "metavar": ",".join(ReproOptions.configs),
    }
    add("--configs", **names, help="run these only")
    find = result.add_argument_group("narrowing it down, once it is reproduced")
    find.add_argument(
        "--shrink-threads",
        action="store_true",
        help="find the smallest number of threads that fails",
    )
    add_all(result.add_argument_group("limits of a run"), _LIMITS)
    away = result.add_argument_group(
        "thousands of runs, on the workers of a Dask cluster (docs/scale.md)"
    )
    away.add_argument("--dask", metavar="ADDRESS", type=scheduler, help=DASK)
    away.add_argument(
        "--walls",
        action="store_true",
        help="run the script in ft-repro's containers on the workers",
    )
    away.add_argument(
        "--dask-folder",
        metavar="DIR",
        help="this project's folder on the workers (default: as here)",
    )
    # Set by ./twins and compose.yaml.
    add("--dask-python", help=argparse.SUPPRESS)
    add("--twin", dest="twins", **several, type=endpoint, help=argparse.SUPPRESS)
    add("--cache", type=Path, help=argparse.SUPPRESS)
    return result


def parse(arguments: list, prog: str = PROGRAM, script: Script | None = None) -> ReproOptions:
    """Return the options of a command line, with *script*, or else the script that it names.

    Raises CommandLineError if the script cannot be run or an option is wrong,
    and SystemExit as argparse does.
    """
    values: dict[str, Any] = {}
    for name, value in vars(parser(prog).parse_args(arguments)).items():
        values[name] = tuple(value) if isinstance(value, list) else value
    options = ReproOptions(Script("", b""), **values)
    _check_out(options.out)
    _check_interpreters(options)
    _check_cluster(options)
    if script is not None:
        return replace(options, script=script)
    script = load(
        options.path,
        options.module,
        options.beside,
        options.arguments,
        options.stdin,
        options.walled,
    )
    if options.dask and script.size > LARGEST_SENT:
        largest = LARGEST_SENT // KIB // KIB
        raise CommandLineError(
            f"the files have more than {largest} MiB, too much to be sent with each task"
        )
    return replace(options, script=script)


def _check_out(out: Path | None) -> None:
    if out is not None and out.is_dir():
        raise CommandLineError(
            f"--out {out} is a directory: name a file, such as {out / 'report.md'}"
        )
    if out is not None and not out.absolute().parent.is_dir():
        raise CommandLineError(f"--out {out}: there is no directory {out.absolute().parent}")


def _check_interpreters(options: ReproOptions) -> None:
    for path in options.interpreters:
        if not _is_executable(path):
            raise CommandLineError(
                f"--interpreter {path!r} is no executable file: name a Python interpreter"
            )
    if options.interpreters and options.walled:
        raise CommandLineError(
            "--interpreter: the containers have no other interpreters; run `./twins repro` natively"
        )


def _is_executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK) and path.isprintable()


def _check_cluster(options: ReproOptions) -> None:
    """Raise CommandLineError if the options for a cluster are wrong."""
    if options.dask is None:
        _check_no_cluster(options)
        return
    if "FT_COMMAND" in os.environ:
        raise CommandLineError(
            "--dask: a container has no network; use `./twins repro SCRIPT --dask ADDRESS "
            "--walls` outside"
        )
    if options.interpreters:
        raise CommandLineError("--interpreter: the workers may not have it; leave out --dask")


def _check_no_cluster(options: ReproOptions) -> None:
    for name in ("walls", "dask_folder"):
        if getattr(options, name):
            raise CommandLineError(
                f"{REPEATED[name]} is for the workers of a cluster: name it with --dask"
            )


def check(arguments: list, program: str) -> None:
    """Check the command line, unless the script is standard input (-); raises SystemExit for --help
    and wrong usage.
    """
    if "-" in arguments:  # it can be read only once
        return
    try:
        parse(arguments, program)
    except CommandLineError as error:
        parser(program).exit(2, f"{program}: {error}\n")
