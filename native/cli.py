"""The command line of `./twins`: its verbs, such as setup, test and bench."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import importlib
import importlib.machinery
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import TwinsError, build, cache, completion, machine, testing
from .build import CHECKOUT, SOURCES, TWINS, Twin

VERBS = ("setup", "info", "exec", "bench", "repro", "test", "audit", "clean", "completion")
# Modules that check the arguments of a verb. They need the standard library alone.
ARGUMENTS = {
    "bench": "ftbench.arguments",
    "repro": "ftsafety.repro.arguments",
    "audit": "ftsafety.audit.arguments",
}

DESCRIPTION = """\
The free-threaded twin (ft) and the one with the GIL (gil) on this machine, without Docker.
What is missing is built on first use and kept in ${XDG_CACHE_HOME:-~/.cache}/ft-twins."""

EPILOG = """\
first steps:
  ./twins bench --quick            a first comparison of threads and processes in both twins
  ./twins exec ft python           a Python without the GIL, with torch, numpy, Pillow and nvImageCodec
  ./twins audit data.py:train_set  is this dataset safe under threads?
  ./twins repro bug.py             does this script fail, and only without the GIL?
  ./twins info --requirements requirements.txt      which of my packages turn the GIL on?

environment:
  PYTHON_SERIES=3.14               the 3.14 twins (default: docker/python-series)
  PYTHON_FROM=download|source      where new interpreters come from: python-build-standalone, or compiled here
                                   (default: auto, downloaded where that is possible)
  PYTHON_PGO=no                    plain builds, in half the time; optimised ones are used if they are there
  PYTHON_SUITE=forky               another Debian suite as the source of CPython
  CUDA=no                          twins with torch for CPUs alone, without CUDA and nvImageCodec: 7 GB less
  FT_PYTHON=... GIL_PYTHON=...     your own interpreters, of 3.13 or 3.14, instead of built ones
  CI=true                          as root at a terminal, install missing system packages without asking
  PYTHONPATH                       further modules; of Python's other variables, those that change what is
                                   measured or said (PYTHONOPTIMIZE, ...) reach the commands of exec alone
  DEBIAN_MIRROR, UV_DEFAULT_INDEX, PIP_INDEX_URL, SSL_CERT_FILE   for closed networks
"""


SETUP = """\
Builds both twins where they are missing: CPython, and the locked packages. uv downloads both
interpreters, optimised. Where it cannot, or with PYTHON_FROM=source, they are compiled from Debian's
signed source, with a training run (PGO): ten to fifteen minutes on two cores.

  ./twins setup --no-pgo"""

INFO = """\
Describes both twins: versions, flags, GIL state, processor, GPU.

  ./twins info
  ./twins info --requirements docker/requirements.in"""

EXEC = """\
Runs CMD with the twin's python, pip and pytest first on PATH and ftloader importable;
passes its exit code on.

  ./twins exec ft python -c 'import sys; print(sys._is_gil_enabled())'"""

TEST_USAGE = "./twins test [-h] [ft|gil] [--quick] [PYTEST-ARGUMENT ...]"
TEST = """\
Checks format, lint and types, then runs the tests: those of the packages in each twin (in ft also
with the GIL forced on), those of ./twins itself and of the report's page, and, where a Docker engine
answers, those that build and run the images. --long adds the tests marked long. Other arguments go
to pytest; with any argument there are no checks. --quick runs, in one twin, the tests that are not
marked slow, in two minutes where nothing else runs. Files and folders of tests/ run alone.
CONTRIBUTING.md says what runs where.

  ./twins test --quick
  ./twins test ft -k order
  ./twins test ft tests/unit/loader"""

CLEAN = """\
Deletes everything that ./twins built, after it has said how much that is and has asked.

  ./twins clean"""

COMPLETION = """\
Prints a script that completes verbs, options and names when you type ./twins and press Tab.
For each new shell, put this line with the full path of ./twins into ~/.bashrc:

  source <(./twins completion bash)"""


def main(arguments: list[str] | None = None) -> int:
    """Run the verb that `arguments` begin with (default:
    the process's arguments); return the exit code.
    """
    options, rest = _parsed(sys.argv[1:] if arguments is None else arguments)
    try:
        status = options.run(options, rest)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader of the output has ended (| head).
        # Flushing the rest at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # the status that a shell gives for SIGPIPE
    except TwinsError as error:
        print(f"./twins {options.verb}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"\n./twins {options.verb}: interrupted", file=sys.stderr)
        return 130


def _parsed(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of a verb, and the arguments that it passes on. Exit with a message if
    they are wrong.
    """
    parser = _parser()
    if not arguments:
        parser.print_help(sys.stderr)
        sys.exit(2)
    if arguments[0] not in VERBS:
        if similar := difflib.get_close_matches(arguments[0], VERBS, n=1):
            parser.error(f"there is no verb {arguments[0]!r}: did you mean {similar[0]!r}?")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.verb not in ("exec", "bench", "test", "repro", "audit"):
        options.refuse(f"unrecognized arguments: {' '.join(rest)}")
    return options, rest


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="./twins", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, help_: str, run, description: str = "", **more) -> argparse.ArgumentParser:
        child = verbs.add_parser(
            name,
            help=help_,
            description=description or help_,
            formatter_class=raw,
            allow_abbrev=False,
            **more,
        )
        child.set_defaults(run=run, refuse=child.error)
        return child

    setup = verb("setup", "build both twins", _setup, SETUP)
    setup.add_argument(
        "--no-pgo",
        action="store_true",
        help="compile without PGO: half the time, slower interpreters",
    )
    setup.add_argument(
        "--yes", action="store_true", help="as root, install missing system packages without asking"
    )

    help_text = "describe both twins: versions, flags, GIL state, processor, GPU"
    info = verb("info", help_text, _info, INFO)
    info.add_argument(
        "--json", action="store_true", help="print one JSON object with the keys ft and gil"
    )
    help_text = "list all locked packages, not only those with a problem"
    info.add_argument("--packages", action="store_true", help=help_text)
    help_text = (
        "look at the wheels of these packages or files instead: which of them turn the GIL on?"
    )
    info.add_argument("--requirements", nargs="+", metavar="FILE|PACKAGE", help=help_text)
    help_text = "with --requirements: import the packages in the ft twin, too"
    info.add_argument("--import", dest="import_too", action="store_true", help=help_text)

    exec_ = verb("exec", "run a command in a twin's environment", _exec, EXEC)
    exec_.add_argument("twin", choices=TWINS)
    exec_.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD [ARG ...]")

    verb("bench", "compare threads and processes in both twins", _bench, add_help=False)
    verb(
        "repro",
        "run a script with and without the GIL, many times, and say where it fails",
        _repro,
        add_help=False,
    )
    verb("test", "run all tests in both twins, or in one", _test, TEST, usage=TEST_USAGE)
    verb(
        "audit", "find out whether a dataset of yours is safe under threads", _audit, add_help=False
    )

    clean = verb("clean", "delete everything that ./twins built", _clean, CLEAN)
    clean.add_argument("--yes", action="store_true", help="do not ask")

    completion_ = verb("completion", "complete verbs and options in bash", _completion, COMPLETION)
    completion_.add_argument("shell", choices=["bash"])
    completion_.set_defaults(parsers=verbs.choices)
    return parser


def _plain() -> bool:
    """True if PYTHON_PGO asks for no optimised builds."""
    return os.environ.get("PYTHON_PGO") == "no"


def _setup(options, _) -> int:
    for twin in build.twins(
        quality="plain" if options.no_pgo or _plain() else "pgo", agreed=options.yes
    ).values():
        print(f"{twin.name:<4} {twin.label}: {twin.python}")
    return 0


def _info(options, _) -> int:
    if options.import_too and not options.requirements:
        raise TwinsError("--import needs --requirements", 2)
    if options.requirements:
        twin = build.twins(["ft"])["ft"]
        command = [str(twin.python), "-P", "-m", "ftrun.info", "--cache", str(cache.root())]
        command += ["--json"] * options.json + ["--import"] * options.import_too
        os.execve(
            command[0], [*command, "--requirements", *options.requirements], twin.environment()
        )
    more = ["--packages"] * options.packages
    return _describe(build.twins(), options.json, more)


def _describe(ready: dict[str, Twin], as_json: bool, more: list[str]) -> int:
    """Run ftrun.info, with the arguments *more*, in all twins at the same time and print the
    output; return 0 or a failed twin's exit status.
    """
    processes: dict[str, subprocess.Popen[str]] = {}
    with contextlib.ExitStack() as stack:
        for name, twin in ready.items():
            # The first twin's lines are shown as they come, those of the others when it has ended.
            output = subprocess.PIPE if processes or as_json else None
            if output is None:
                print(f"== {name}: {twin.directory}", flush=True)
            processes[name] = stack.enter_context(_start_info(twin, as_json, more, output))
            stack.callback(processes[name].terminate)
        return _show_json(processes) if as_json else _show_output(processes, ready)


def _show_json(processes: dict[str, subprocess.Popen[str]]) -> int:
    answers, code = {}, 0
    for name, process in processes.items():
        out, err = process.communicate()
        code = process.returncode or code
        answers[name] = json.loads(out) if out else None
        print(err, end="", file=sys.stderr, flush=True)
    print(json.dumps(answers, indent=1))
    return code


def _show_output(processes: dict[str, subprocess.Popen[str]], ready: dict[str, Twin]) -> int:
    code = 0
    for name, process in processes.items():
        out, err = process.communicate()
        code = process.returncode or code
        if out is not None:  # else it is the first twin's
            print(f"== {name}: {ready[name].directory}\n{out}", end="", flush=True)
            print(err, end="", file=sys.stderr, flush=True)
    return code


def _start_info(
    twin: Twin, as_json: bool, more: list[str], output: int | None
) -> subprocess.Popen[str]:
    command = [str(twin.python), "-P", "-m", "ftrun.info", *more]
    if as_json:
        command.append("--json")
    variables = twin.environment()
    if sys.stdout.isatty():
        variables["COLUMNS"] = str(shutil.get_terminal_size().columns)
    return subprocess.Popen(command, env=variables, stdout=output, stderr=output, text=True)


def _exec(options, rest) -> int:
    command = options.command + rest
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise TwinsError("a command is needed: ./twins exec ft python", 2)
    twin = build.twins([options.twin])[options.twin]
    variables = twin.environment(cleared=["PYTHONHOME"])
    program = shutil.which(command[0], path=variables["PATH"])
    if program is None:
        raise TwinsError(f"there is no program {command[0]}", 127)
    sys.stdout.flush()
    os.execve(program, command, variables)


def _check(verb: str, arguments: list[str]) -> None:
    """Check a verb's arguments before anything is built. If they are wrong or have --help, print a
    message and exit.
    """
    sys.path += SOURCES
    # Imported only here, because importing takes time and most verbs do without.
    importlib.import_module(ARGUMENTS[verb]).check(arguments, f"./twins {verb}")


def _bench(_, rest) -> int:
    # these read the results of earlier runs
    is_report = rest[:1] in (["report"], ["compare"], ["merge"])
    if not is_report:
        rest = ["--out", str(CHECKOUT / "results"), *rest]
    _check("bench", rest)
    # Any builds will do for --quick and --why. The full comparison needs optimised ones.
    plain_will_do = is_report or "--quick" in rest or "--why" in rest or _plain()
    ready = build.twins(quality="any" if plain_will_do else "pgo")
    driver = ready["ft"]
    command = [str(driver.python), "-P", "-m", "ftbench"]
    if not is_report:
        command += ["--cache", str(cache.root()), *_twin_options(ready)]
    os.execve(command[0], command + rest, driver.environment())


def _repro(_, rest) -> int:
    if "--task" in rest:  # on a worker of a cluster: see ftsafety.repro.task
        ready = build.finished()
    else:
        _check("repro", rest)
        if any(argument.partition("=")[0] == "--dask" for argument in rest):
            rest = ["--dask-python", _python_with_dask(), *rest]
        ready = build.twins()
    driver = ready["ft"]
    variables = driver.environment()
    variables.setdefault("UV_CACHE_DIR", str(cache.root() / "uv"))
    command = [
        str(driver.python),
        "-P",
        "-m",
        "ftsafety.repro",
        "--cache",
        str(cache.root()),
        *_twin_options(ready),
    ]
    os.execve(command[0], command + rest, variables)


def _python_with_dask() -> str:
    """Return the path of the Python that runs this program. Raises TwinsError if Dask is not
    installed in it.
    """
    # The option -E, which ./twins gives to this Python, leaves PYTHONPATH out.
    paths = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    if importlib.machinery.PathFinder.find_spec("distributed", paths) is None:
        raise TwinsError(
            f"--dask needs Dask in the Python that runs ./twins, at the cluster's version: "
            f"{sys.executable} -m pip "
            "install distributed==VERSION, or activate an environment that has it",
            2,
        )
    return sys.executable


def _twin_options(ready: dict[str, Twin]) -> list[str]:
    """Return the arguments `--twin NAME=PATH` for ftbench or ftsafety.repro, two strings for each
    twin in `ready`.
    """
    return [part for name, twin in ready.items() for part in ("--twin", f"{name}={twin.python}")]


def _audit(_, rest) -> int:
    name = rest.pop(0) if rest[:1] and rest[0] in TWINS else "ft"  # most races show without the GIL
    _check("audit", rest)
    twin = build.twins([name])[name]
    os.execve(
        str(twin.python),
        [str(twin.python), "-P", "-m", "ftsafety.audit", *rest],
        twin.environment(),
    )


def _test(_, rest) -> int:
    # Not with argparse, which would confuse the value of a pytest option with the twin.
    names = [rest.pop(0)] if rest[:1] and rest[0] in TWINS else list(TWINS)
    testing.check(rest)
    quick = "--quick" in rest
    twins = build.twins(names[:1] if quick else names)
    runs = testing.chosen(list(twins.values()), rest)
    if not runs and quick:
        rest.remove("--quick")
        runs = testing.quick_runs(twins[names[0]], rest)
    return testing.run(runs or testing.all_runs(twins, rest), selection=bool(rest))


def _completion(options, _) -> int:
    sys.path += SOURCES
    names = {verb: list(TWINS) for verb in ("exec", "test", "audit")}
    names["completion"] = ["bash"]
    parsers = dict(options.parsers)
    for verb in ("repro", "audit"):
        parsers[verb] = importlib.import_module(ARGUMENTS[verb]).parser()
    bench = importlib.import_module(ARGUMENTS["bench"])
    parsers["bench"] = bench.parser(both=True)
    names["bench"] = [*bench.READERS, "all", *bench.GROUPS, *bench.SCENARIOS]
    words = {
        verb: (names.get(verb, []), completion.options(parser.format_usage()))
        for verb, parser in parsers.items()
    }
    print(completion.bash(words), end="")
    return 0


def _clean(options, _) -> int:
    directory = cache.root()
    if not directory.exists():
        print(f"nothing to delete: {directory} does not exist")
        return 0
    du = subprocess.run(
        ["du", "-sh", str(directory)], stdout=subprocess.PIPE, text=True, check=False
    )
    size = du.stdout.split("\t")[0]
    if not options.yes and not _confirms_deletion(directory, size):
        return 1
    with cache.locked(lambda text: print(text, file=sys.stderr)):
        for entry in directory.iterdir():
            if entry.name == "engine":
                print(f"kept: {entry} (.ci/engine remove deletes it)")
            elif entry.name != "lock":
                _delete(entry)
    print(f"deleted {size}")
    return 0


def _confirms_deletion(directory: Path, size: str) -> bool:
    if not machine.can_ask():
        raise TwinsError(
            f"it deletes {directory} ({size}); without a terminal to ask at, it needs --yes", 2
        )
    return input(f"Delete {directory} ({size})? [y/N] ").strip().lower() in ("y", "yes")


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
