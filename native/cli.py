"""The verbs of `./twins`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys

from . import build, cache, checks, machine
from .build import CHECKOUT, SOURCES, TWINS
from .environment import environment
from .errors import TwinsError
from .testing import TestRun, pytest, run_tests

OF_A_TWIN = ["unit", "conformance", "distributed", "examples", "libraries", "stress", "soak"]
# With pytest-run-parallel, without the GIL: what asks for many workers and for nothing of the whole process.
AT_ONCE = ["conformance/test_workers.py", "conformance/test_failures.py", "conformance/test_ownership.py"]
FOUR_THREADS = ("--parallel-threads=4", "--iterations=1")

DESCRIPTION = """\
The free-threaded twin (ft) and the one with the GIL (gil) on this machine, without Docker.
What is missing is built on first use and kept in ${XDG_CACHE_HOME:-~/.cache}/ft-twins."""

EPILOG = """\
first steps:
  ./twins bench --quick            a first comparison of threads and processes in both twins
  ./twins exec ft python           a Python without the GIL, with torch, numpy, Pillow and nvImageCodec
  ./twins repro bug.py             does this script fail, and only without the GIL?

environment:
  PYTHON_SERIES=3.14               the 3.14 twins (default 3.13)
  PYTHON_SUITE=forky               another Debian suite as the source of CPython
  FT_PYTHON=... GIL_PYTHON=...     your own interpreters instead of built ones
  CI=true                          as root at a terminal, install missing system packages without asking
  DEBIAN_MIRROR, UV_DEFAULT_INDEX, PIP_INDEX_URL, SSL_CERT_FILE   for closed networks
"""


def main(arguments: list[str] | None = None) -> int:
    """Runs one verb; returns the exit code."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.verb not in ("exec", "bench", "test", "repro", "audit"):
        parser.error(f"unrecognised arguments: {' '.join(rest)}")
    try:
        status = options.run(options, rest)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # Whoever read the output has had enough (| head); what is left of it must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell says it of what SIGPIPE ended
    except TwinsError as error:
        print(f"twins: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ntwins: interrupted; what was finished is kept, the rest is built again next time", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="./twins", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, help_: str, run, description: str = "", **more) -> argparse.ArgumentParser:
        child = verbs.add_parser(
            name, help=help_, description=description or help_, formatter_class=raw, allow_abbrev=False, **more
        )
        child.set_defaults(run=run)
        return child

    setup = verb(
        "setup",
        "build both twins",
        _setup,
        (
            "Builds both twins where they are missing: CPython from Debian's signed source, optimised with a\n"
            "training run (PGO), and the locked packages. Takes ten to fifteen minutes on two cores."
        ),
    )
    setup.add_argument("--no-pgo", action="store_true", help="plain builds: half the time, slower interpreters")
    setup.add_argument("--yes", action="store_true", help="as root, install missing system packages without asking")

    info = verb("info", "describe both twins: versions, flags, GIL state, processor, GPU", _info)
    info.add_argument("--json", action="store_true", help="print one JSON object with the keys ft and gil")

    exec_ = verb(
        "exec",
        "run a command in a twin's environment",
        _exec,
        (
            "Runs CMD with the twin's python, pip and pytest first on PATH and ftloader importable;\n"
            "passes its exit code on.\n\n  ./twins exec ft python -c 'import sys; print(sys._is_gil_enabled())'"
        ),
    )
    exec_.add_argument("twin", choices=TWINS)
    exec_.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD [ARG ...]")

    verb("bench", "compare threads and processes in both twins", _bench, add_help=False)

    verb("repro", "run a script with and without the GIL, many times, and say where it fails", _repro, add_help=False)

    verb(
        "test",
        "run all tests in both twins, or in one",
        _test,
        (
            "Checks format, lint and types, then runs the tests: those of the packages in each twin (in ft also\n"
            "with the GIL forced on), those of ./twins itself and of the report's page, and, where a Docker engine\n"
            "answers, those that build and run the images. --long adds the tests marked long. Other arguments go\n"
            "to pytest; with any argument there are no checks:\n\n"
            "  ./twins test ft -k order"
        ),
        usage="./twins test [-h] [ft|gil] [PYTEST-ARGUMENT ...]",
    )

    verb("audit", "find out whether a dataset of yours is safe under threads", _audit, add_help=False)

    clean = verb("clean", "delete everything that ./twins built", _clean)
    clean.add_argument("--yes", action="store_true", help="do not ask")
    return parser


def _setup(options, _) -> int:
    for twin in build.twins(quality="plain" if options.no_pgo else "pgo", agreed=options.yes).values():
        print(f"{twin.name:<4} {twin.label}: {twin.python}")
    return 0


def _info(options, _) -> int:
    ready = build.twins()
    answers, code = {}, 0
    for name, twin in ready.items():
        command = [str(twin.python), "-P", "-m", "ftrun.info"]
        if options.json:
            answer = subprocess.run(command + ["--json"], env=environment(twin), stdout=subprocess.PIPE, check=False)
            code = code or answer.returncode
            answers[name] = json.loads(answer.stdout) if answer.stdout else None
        else:
            print(f"== {name}: {twin.directory}", flush=True)
            code = subprocess.run(command, env=environment(twin), check=False).returncode or code
    if options.json:
        print(json.dumps(answers, indent=1))
    return code


def _exec(options, rest) -> int:
    command = options.command + rest
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise TwinsError("exec needs a command: ./twins exec ft python", 2)
    twin = build.twins([options.twin])[options.twin]
    variables = environment(twin)
    program = shutil.which(command[0], path=variables["PATH"])
    if program is None:
        raise TwinsError(f"exec: there is no program {command[0]}", 127)
    sys.stdout.flush()
    os.execve(program, command, variables)


def _bench(_, rest) -> int:
    _check_bench_arguments(rest)
    again = rest[:1] in (["report"], ["compare"])  # of earlier runs
    # With --quick any builds will do; the full comparison needs optimised ones.
    ready = build.twins(quality="any" if again or "--quick" in rest else "pgo")
    driver = ready["ft"]
    command = [str(driver.python), "-P", "-m", "ftbench"]
    if not again:
        command += ["--out", str(CHECKOUT / "results"), "--cache", str(cache.root())]
        for name, twin in ready.items():
            command += ["--twin", f"{name}={twin.python}"]
    os.execve(command[0], command + rest, environment(driver))


def _check_bench_arguments(rest) -> None:
    """Handles --help and wrong usage, which would else come after ten minutes of building."""
    sys.path += SOURCES
    from ftbench.arguments import UsageError, check

    try:
        check(rest, "./twins bench")
    except UsageError as error:
        raise TwinsError(f"bench: {error}", 2) from error


def _repro(_, rest) -> int:
    # --help, wrong usage and a missing script are handled before anything is built.
    sys.path += SOURCES
    from ftsafety.repro.arguments import UsageError, parse

    if "-" not in rest:  # standard input can be read once only
        try:
            parse(rest)
        except UsageError as error:
            raise TwinsError(f"repro: {error}", 2) from error
    ready = build.twins()
    driver = ready["ft"]
    variables = environment(driver)
    variables.setdefault("UV_CACHE_DIR", str(cache.root() / "uv"))
    command = [str(driver.python), "-P", "-m", "ftsafety.repro", "--cache", str(cache.root())]
    for name, twin in ready.items():
        command += ["--twin", f"{name}={twin.python}"]
    os.execve(command[0], command + rest, variables)


def _audit(_, rest) -> int:
    name = rest.pop(0) if rest[:1] and rest[0] in TWINS else "ft"  # without the GIL, races show most
    _audit_arguments().parse(rest, "./twins audit [ft|gil]")  # handles --help and wrong usage
    twin = build.twins([name])[name]
    os.execve(str(twin.python), [str(twin.python), "-P", "-m", "ftsafety.audit", *rest], environment(twin))


def _audit_arguments():
    """ftsafety/audit/arguments.py, imported by its path, since importing its package needs torch."""
    path = CHECKOUT / "safety" / "ftsafety" / "audit" / "arguments.py"
    spec = importlib.util.spec_from_file_location("audit_arguments", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _test(_, rest) -> int:
    # Not left to argparse, which would take the value of a pytest option for the twin.
    names = [rest.pop(0)] if rest[:1] and rest[0] in TWINS else list(TWINS)
    ready = build.twins(names)
    first = ready[names[0]]
    runs = []
    # Whoever selects tests wants those alone.
    if not rest:
        reason = checks.why_not()
        if reason:
            print(f"== format, lint and types: skipped: {reason}")
        else:
            hooks = checks.command(ready.get("gil", first))
            runs.append(TestRun("format, lint and types", hooks, checks.variables()))
    # The longest first. What is not about an interpreter (the images, ./twins itself, the page) runs once.
    runs.append(pytest("the images", first, ["images"], rest))
    runs += [pytest(f"{name}: {ready[name].label}", ready[name], OF_A_TWIN, rest) for name in names]
    runs.append(pytest("./twins and the report's page", first, ["native", "browser"], rest))
    if "ft" in ready:
        forced = ["unit/loader", "conformance", "stress"]
        runs.append(pytest("ft with the GIL forced on", ready["ft"], forced, rest, {"PYTHON_GIL": "1"}))
        runs.append(pytest("ft, each test in four threads at once", ready["ft"], AT_ONCE, [*FOUR_THREADS, *rest]))
    return run_tests(runs, selection=bool(rest))


def _clean(options, _) -> int:
    directory = cache.root()
    if not directory.exists():
        print(f"nothing to delete: {directory} does not exist")
        return 0
    size = subprocess.run(["du", "-sh", str(directory)], stdout=subprocess.PIPE, text=True, check=False).stdout.split(
        "\t"
    )[0]
    if not options.yes:
        if not machine.can_ask():
            raise TwinsError(f"clean deletes {directory} ({size}); without a terminal to ask at, it needs --yes", 2)
        if input(f"Delete {directory} ({size})? [y/N] ").strip().lower() not in ("y", "yes"):
            return 1
    with cache.locked(lambda text: print(text, file=sys.stderr)):
        for entry in directory.iterdir():
            if entry.name == "engine":
                print(f"kept: {entry} (.ci/engine remove deletes it)")
            elif entry.name != "lock":
                shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    print(f"deleted {size}")
    return 0
