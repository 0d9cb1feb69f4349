"""The command lines of ``python -m ftbench``: their parsers,
and the checks that need no measurement.

This module needs only the standard library and Python 3.9: `./twins bench` checks its command line
with this module before it builds anything, so that a typo does not cost ten minutes.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NoReturn

from ftbench.command_options import users_command
from ftbench.options import RunOptions, UsageError
from ftbench.plan import shortest
from ftbench.plan.candidates import CONFIGS
from ftbench.plan.scenario import Scenario
from ftbench.plan.waterfall import PRECISION
from ftbench.scenarios import DEFAULT, GROUPS, SCENARIOS, command, members, own
from ftrun import host
from ftrun.options import configurations, endpoint, hint, number, whole

PROGRAM = host.command("python -m ftbench")

DESCRIPTION = """\
Measure what removing the GIL does to data loading. From torch's DataLoader with processes on ordinary Python to
threads without the GIL, one thing is changed at a time, and each step is given with its interval: a waterfall. It is
measured for JPEG decoding, which releases the GIL, and for text in Python, which holds it, or for your own dataset.

All candidates take turns of a fraction of a second, in several processes each, so that what disturbs one disturbs
all. The run ends as soon as the throughput of every step is known to --precision, or when its time is over.
"""

ENDPOINTS = """\
A twin's ENDPOINT is a Python executable, or unix:PATH of a `python -m ftbench.trial.server` that runs in
another container. Without --twin, the Python that runs this is measured alone.

"""

EPILOG = """\
  PROGRAM --quick                            the waterfalls, within five minutes of measuring
  PROGRAM --dataset train.py:train_set       for your own dataset
  PROGRAM --command 'python prog.py {n}' --parameter n=1,2,4     any program, with several threads
  PROGRAM --quick --again 5 --every 1h       and what do other hours say?
  PROGRAM --list                             the scenarios and their groups
  PROGRAM all --quick                        every scenario once; Ctrl-C keeps what is finished
  PROGRAM pillow --data ~/photos             with your own images
  PROGRAM peers --workers 2                  this loader against torch, torchdata and spdl
  PROGRAM --quick --stress                   and is the loader, and what it uses, safe under threads?
  PROGRAM report DIR                         make the report of a run again; --markdown for an issue
  PROGRAM compare A B                        what changed between two runs, beyond the noise
  PROGRAM merge RUN... --out DIR             one page over the runs of many machines, such as a cluster's nodes

Exit status: 0 complete, 1 a trial, the thread-safety suite or writing failed, 2 wrong usage or
input, 130 or 143 when interrupted (finished rounds are reported, marked incomplete).
"""


# Between the starts of two runs of a set, in seconds.
USUAL_EVERY, MOST_EVERY = 3600.0, 30 * 86400.0


WHY_CONFIG = "ft"
"""Configuration that --why measures."""
NOT_WITH_WHY = (
    "--again",
    "--every",
    "--configs",
    "--ranks",
    "--batch-size",
    "--budget",
    "--precision",
    "--stress",
    "--stress-minutes",
    "--tables",
)


HELP = {
    "scenarios": f"what to measure: scenarios, groups or all (default: {', '.join(DEFAULT)})",
    "--quick": "the waterfalls alone, with smaller batches: within five minutes of measuring; of a "
    "--command within 90 seconds",
    "--out": "where results go: DIR/<time>/, and DIR/latest (default: %(default)s)",
    "--data": "use the images below DIR instead of generated ones, wherever images are read",
    "--dataset": "your own map-style dataset instead of the scenarios: an object, or a function or "
    "class that gives one",
    "--collate-fn": "its collate_fn, in the same file (default: torch's)",
    "--command": "any program instead of the scenarios, as its command line: what do the "
    "free-threaded build and removing the GIL do to it? No shell reads it (`sh -c '...'` does); "
    "`python` and `pytest` are those of the configuration",
    "--parameter": "run --command, and --setup, with each value in place of {NAME}: --parameter threads=1,2,4",
    "--setup": "a command that runs before each run, and is not measured",
    "--stdin": "what each run reads from standard input (default: nothing)",
    "--no-compare": "do not require the same output of all configurations",
    "--package": "a package that the dataset or command needs and the twins lack; can be repeated",
    "--requirements": "a file of such packages, as for pip; they are installed for this run alone "
    "(default: the dependencies in the inline metadata, PEP 723, of the dataset's or command's "
    "file)",
    "--rounds": "exactly N rounds, whatever they take (default: as many as fit)",
    "--budget": (
        "time for the whole run (default: the scenarios' own, 1200 without names, --quick 300)"
    ),
    "--precision": (
        "end early once each step's throughput is known to this many percent, up and down "
        "(default: 5%%)"
    ),
    "--workers": (
        "numbers of workers, 0 for a loop that loads by itself; with --ranks, of each rank "
        "(default: 1, 2, 4, ... CPUs, which ranks share out)"
    ),
    "--ranks": "processes that load together, as on a node with N GPUs: each trial is a torchrun "
    "job of N ranks, each with its own loader and its share of the batches (default: 1, without "
    "torchrun)",
    "--batch-size": "samples a batch (default: the scenario's)",
    "--configs": (
        "configurations: GIL build, free-threaded build with its GIL on, free-threaded build"
    ),
    "--stress": "afterwards, run the thread-safety suite (tests/stress) in every configuration, "
    "for about a minute each and beyond --budget (default: with all, and if no SCENARIO or "
    "--command is named, without --quick)",
    "--stress-minutes": "minutes for the thread-safety suite in each configuration: a soak",
    "--why": "with --dataset: only say why its threads do not scale: the attributes that they fight "
    "over, shown by copies of them (a minute or so; with --quick less than half of it)",
    "--list": "list the scenarios, what they answer and how long they take, and end",
    "--tables": "also print the tables of all candidates and comparisons, which the page has",
    "--again": "a set of N runs at different hours, the first at once; from three on, each says "
    "what hours do to its answer",
    "--every": (
        "with --again: time from the start of a run to that of the next, such as 30m, 1h "
        "or 2d (default: 1h)"
    ),
    "--twin": "an interpreter to measure; once for each twin",
}


OPTIONS = (*(name for name in HELP if name.startswith("--")), "--no-stress")


class _Parser(argparse.ArgumentParser):
    """Argument parser whose error for an unknown option suggests a similar option."""

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (--[\w-]+)", message)
        super().error(message + (hint(unknown[1], self._option_string_actions) if unknown else ""))


def parser(program: str = PROGRAM, both: bool = False) -> argparse.ArgumentParser:
    """Return the argument parser of a run. If `both`, --help hides --twin,
    since `./twins` measures both twins.
    """
    result = _Parser(
        prog=program,
        description=DESCRIPTION,
        epilog=("" if both else ENDPOINTS) + EPILOG.replace("PROGRAM", program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def add(name: str, **how: Any) -> None:
        hidden = name == "--cache" or (both and name == "--twin")
        result.add_argument(name, help=argparse.SUPPRESS if hidden else HELP[name], **how)

    positive = number("a positive whole number", 1, 1_000_000, int)
    add("scenarios", nargs="*", metavar="SCENARIO")
    add("--quick", action="store_true")
    add("--out", type=Path, default=Path("results"), metavar="DIR")
    add("--data", type=Path, metavar="DIR")
    add("--dataset", metavar="FILE.py:NAME")
    add("--collate-fn", metavar="NAME")
    add("--command", metavar="'PROGRAM ...'")
    add("--parameter", action="append", type=_parameter, metavar="NAME=1,2,4")
    add("--setup", metavar="'PROGRAM ...'")
    add("--stdin", metavar="FILE")
    add("--no-compare", action="store_true")
    add("--package", action="append", default=[], metavar="REQUIREMENT")
    add("--requirements", type=Path, metavar="FILE")
    add("--cache", type=Path)
    add("--rounds", type=positive, metavar="N")
    add("--budget", type=number("a number of seconds (1 or more)", 1, 1e6), metavar="SECONDS")
    add("--precision", type=_percent, default=PRECISION, metavar="PERCENT")
    add("--workers", type=_workers, metavar="0,1,2,4")
    add("--ranks", type=whole(1, 1024), default=1, metavar="N")
    add("--batch-size", type=positive, metavar="N")
    add("--configs", type=configurations, default=CONFIGS, metavar=",".join(CONFIGS))
    add("--stress", action=argparse.BooleanOptionalAction)
    add(
        "--stress-minutes",
        type=number("a number of minutes (0.01 or more)", 0.01, 1e4),
        metavar="M",
    )
    add("--again", type=whole(2, 1000), metavar="N")
    add("--every", type=_time, metavar="TIME")
    add("--why", action="store_true")
    add("--list", action="store_true")
    add("--tables", action="store_true")
    add("--twin", action="append", type=endpoint, default=[], metavar="ft|gil=ENDPOINT")
    return result


def report_parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the argument parser of the command `report`."""
    result = argparse.ArgumentParser(
        prog=f"{program} report",
        description="Make the report again from a results.json, next to it, and print it.",
    )
    result.add_argument(
        "path", type=host.inside, metavar="PATH", help="a run's directory, or its results.json"
    )
    result.add_argument(
        "--markdown",
        action="store_true",
        help="write nothing, print a summary in Markdown, to paste into an issue",
    )
    result.add_argument("--tables", action="store_true", help=HELP["--tables"])
    return result


COMPARE = """\
Put two runs side by side (of two machines, versions or commits) and say what changed beyond the
noise of both. Ratios within a run have the machine's speed taken out; values have not. A figure
counts as changed if its p-value, adjusted for the number of figures, is below 0.05, and the change
is more than 1%.
"""


def compare_parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the argument parser of the command `compare`."""
    result = argparse.ArgumentParser(
        prog=f"{program} compare",
        description=COMPARE,
        epilog="Exit status: 0 nothing changed beyond the noise, 1 something did (or an "
        "outcome of the thread-safety suite), 2 the runs cannot be read or have nothing in common. "
        "With --worse: 1 a value became worse, 0 none did.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, which in (("a", "earlier"), ("b", "later")):
        result.add_argument(
            name,
            type=host.inside,
            metavar=name.upper(),
            help=f"the {which} or other run: its directory or its results.json",
        )
    result.add_argument(
        "--worse",
        action="store_true",
        help="exit with 1 only if a value became worse in B, as a check in CI",
    )
    return result


MERGE = """\
Merge the runs of many machines into one answer: the waterfall of each kind of machine (processor, CPUs,
memory, GPUs), the steps on which kinds agree or differ, and machines that stand out from their kind. Only
runs of the same software and the same work are merged; others are set apart, with the reason. Runs that
are incomplete, broken or copies are named and left out. Each run counts as one machine.
"""

MERGE_EPILOG = """\
  PROGRAM merge shared/                      every directory in shared/ is a run, or one machine's --out
  PROGRAM merge a/ b/results.json --out all  all/index.html, all/merged.json and all/summary.md
  srun bash -c './twins bench --quick --out shared/$(hostname)'     writes such a folder on Slurm's nodes

Exit status: 0 all runs are merged and no machine stands out, 1 a run is left out or set apart or a machine
stands out, 2 nothing can be merged.
"""


def merge_parser(program: str = PROGRAM) -> argparse.ArgumentParser:
    """Return the argument parser of the command `merge`."""
    result = _Parser(
        prog=f"{program} merge",
        description=MERGE,
        epilog=MERGE_EPILOG.replace("PROGRAM", program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    which = (
        "a run's directory or results.json, one machine's --out (its latest run), or a "
        "folder of those"
    )
    result.add_argument("runs", type=host.inside, nargs="+", metavar="RUN", help=which)
    files = "write index.html, merged.json and summary.md to DIR (default: only print the answer)"
    result.add_argument("--out", type=host.inside, metavar="DIR", help=files)
    return result


READERS = {"report": report_parser, "compare": compare_parser, "merge": merge_parser}
"""Parsers of the commands that read the results of earlier runs, by name."""


def check(arguments: list[str], program: str) -> None:
    """Check the arguments of `./twins bench`, and that --out is writable;
    exit with status 2 if a check fails.
    """
    try:
        if reader := READERS.get("".join(arguments[:1])):
            # report and compare have none
            out = getattr(reader(program).parse_args(arguments[1:]), "out", None)
        else:
            options = parse(arguments, program, both=True)
            out = options.out
            if options.twin:
                remedy = "FT_PYTHON=... and GIL_PYTHON=... name others"
                raise UsageError(f"--twin is not needed: both are measured. {remedy}")
            check_budget(options, options.configs)
        if out:
            _check_writable(out.absolute())
    except UsageError as error:
        parser(program).exit(2, f"{program}: {error}\n")


def check_budget(options: RunOptions, configs: Iterable[str]) -> None:
    """Raise UsageError if a run of these configurations can never reach a verdict within its
    --budget. The first scenario decides: a run without time for it fails.
    """
    usual = sum(scenario.share(options.quick) for scenario in options.scenarios)
    if options.rounds is not None or options.budget is None or options.budget >= usual:
        return
    first, ranks, cpus = options.scenarios[0], options.ranks or 1, os.cpu_count() or 1
    workers = options.workers or first.workers(cpus)
    trials = shortest.essential_trials(first, configs, workers, options.quick)
    processes = trials * shortest.fewest_rounds(first, options.quick)
    least = shortest.report_seconds(len(options.scenarios))
    least += shortest.starting_seconds(processes, ranks, cpus)
    if options.budget < least:
        raise UsageError(shortest.refusal(options.budget, processes, ranks, least, usual))


def _check_writable(out: Path) -> None:
    """Raise UsageError if results cannot be written to the directory *out*,
    which may not exist yet.
    """
    existing_parent = next(path for path in (out, *out.parents) if os.path.exists(path))
    if not (existing_parent.is_dir() and os.access(existing_parent, os.W_OK | os.X_OK)):
        raise UsageError(f"cannot write results to {out}; name another directory with --out DIR")


def _percent(text: str) -> float:
    return number("a precision (0.1% to 100%)", 0.1, 100)(text.removesuffix("%")) / 100


def _time(text: str) -> float:
    """Return the seconds of a time such as "30m", "1h" or "2d"; "90s" is understood, too."""
    matched = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)([smhd])", text)
    seconds = (
        float(matched[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[matched[2]] if matched else 0.0
    )
    if not 0 < seconds <= MOST_EVERY:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time such as 30m, 1h or 2d (at most 30d)"
        )
    return seconds


def _parameter(text: str) -> tuple[str, tuple[str, ...]]:
    """Return (name, values) of a parameter such as "threads=1,2,4"."""
    name, _, listed = text.partition("=")
    values = tuple(dict.fromkeys(filter(None, map(str.strip, listed.split(",")))))
    if not name.isidentifier() or not values:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE,... such as threads=1,2,4")
    return name, values


def _workers(text: str) -> list[int]:
    counts = sorted({number("a whole number", 0, 1_000_000, int)(part) for part in text.split(",")})
    if counts[-1] > 1024:
        raise argparse.ArgumentTypeError("more than 1024 workers")
    if not counts[-1]:
        raise argparse.ArgumentTypeError("0 alone has nothing to be compared with; use 0,1,2")
    return counts


def choose_scenarios(names: list[str]) -> tuple:
    """Return the scenarios that `names` stand for, or those of DEFAULT if `names` is empty;
    may raise UsageError.
    """
    names_known = [*SCENARIOS, *GROUPS, "all"]
    if unknown := next((name for name in names if name not in names_known), None):
        raise UsageError(
            f"unknown scenario {unknown!r} (--list shows "
            f"all){hint(unknown, [*names_known, *OPTIONS, *READERS])}"
        )
    chosen: dict[str, Scenario] = {}
    for name in names or DEFAULT:
        chosen |= {scenario.name: scenario for scenario in members(name)}
    return tuple(chosen.values())


def _own(target: str, collate_fn: str | None) -> Scenario:
    """Return a scenario for the dataset `target` (FILE.py:NAME); raises UsageError if file or NAME
    does not exist.
    """
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise UsageError(f"--dataset {target}: FILE.py:NAME is wanted, such as train.py:train_set")
    if not file.endswith(".py") and os.path.isfile(file):
        raise UsageError(f"--dataset {target}: {file} is not a .py file")
    if file.endswith(".py"):
        if not Path(file).is_file():
            raise UsageError(f"--dataset {target}: there is no file {file}")
        _check_name(Path(file), name.partition(".")[0])
        # Trials run in another directory.
        file = str(Path(file).absolute())
    return own.scenario(f"{file}:{name}", f"{file}:{collate_fn}" if collate_fn else None)


def _check_name(file: Path, name: str) -> None:
    """Raise UsageError if the text of a Python file shows
    that no object in the file has this name.
    """
    try:
        text = file.read_text(errors="replace")
    except OSError:
        return  # the error of importing the file will say more
    dynamic = re.search(
        r"import\s*\(?\*|\b(__getattr__|globals|locals|vars|exec|setattr|__dict__|sys\.modules)\b",
        text,
    )
    if dynamic or re.search(rf"\b{re.escape(name)}\b", text):
        return
    defined = re.findall(r"^(?:def |class )?(\w+)\b[ \t]*[(:=]", text, re.MULTILINE)
    raise UsageError(f"--dataset: {file} has no {name}{hint(name, defined)}")


TIMES = """\
These are budgets: rounds are repeated until the time is spent, and where it is short candidates are left out,
the least important first. On a slow or busy machine three rounds of the most important ones can take longer.
--budget SECONDS changes the time, and is refused if it is too short; --rounds N does without it."""


def listing() -> str:
    """Return the output of --list: the scenarios by group, each with its times (full run, quick
    run) and question.
    """
    width = max(len(name) + 2 for name in [*SCENARIOS, *GROUPS])

    def line(name: str, text: str, scenarios: list, indent: str = "") -> str:
        full, quick = (
            _duration(sum(s.share(is_quick) for s in scenarios)) for is_quick in (False, True)
        )
        text = text[:1].upper() + text[1:]
        return f"{indent}{name:{width - len(indent)}}  {full:>7}  {quick:>7}  {text}"

    lines = [f"{'':{width}}  {'full':>7}  {'quick':>7}"]
    lines += [
        line(s.name, s.question or s.description, [s]) for s in SCENARIOS.values() if not s.group
    ]
    for group, description in GROUPS.items():
        lines += ["", line(group, description, members(group))]
        lines += [line(s.name, s.question or s.description, [s], "  ") for s in members(group)]
    lines += [
        "",
        line("all", "everything above, in this order, in one report", members("all")),
        "",
        TIMES,
    ]
    return "\n".join(lines)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def parse(arguments: list[str], program: str = PROGRAM, both: bool = False) -> RunOptions:
    """Parse and check the command line of a run.

    Raises UsageError for unknown names, and for options that do not go together. Raises SystemExit
    after --help and --list (status 0), and for arguments that argparse refuses (status 2).
    """
    line = parser(program, both)
    # Scenarios may stand before and after options.
    namespace = line.parse_intermixed_args(arguments)
    if namespace.list:
        print(listing(), flush=True)
        line.exit()
    users = users_command(namespace)
    named = (command.scenario(users),) if users else _scenarios(namespace)
    if namespace.every is not None and namespace.again is None:
        raise UsageError(
            "--every belongs to --again: --again 5 --every 1h makes five runs, an hour apart"
        )
    if namespace.stress_minutes is not None and namespace.stress is False:
        raise UsageError(
            "--stress-minutes says how long what --no-stress leaves out takes: give one of them"
        )
    if namespace.why:
        _check_why(namespace, line)
    _check_use(namespace, named)
    scenarios, left_out = _with_ranks(named, namespace.ranks)
    return RunOptions(
        scenarios=scenarios,
        left_out=left_out,
        quick=namespace.quick,
        out=namespace.out,
        data=namespace.data,
        dataset=namespace.dataset,
        collate_fn=namespace.collate_fn,
        command=users,
        packages=tuple(namespace.package),
        requirements=namespace.requirements,
        cache=namespace.cache,
        rounds=namespace.rounds,
        budget=namespace.budget,
        precision=namespace.precision,
        workers=namespace.workers,
        ranks=namespace.ranks if namespace.ranks > 1 else None,
        batch_size=namespace.batch_size,
        configs=(WHY_CONFIG,) if namespace.why else namespace.configs,
        stress=_runs_stress(namespace),
        stress_minutes=namespace.stress_minutes,
        again=namespace.again or 1,
        every=namespace.every or USUAL_EVERY,
        tables=namespace.tables,
        why=namespace.why,
        twin=tuple(namespace.twin),
    )


def _check_why(given: argparse.Namespace, line: argparse.ArgumentParser) -> None:
    """Raise UsageError if the other options do not go together with --why."""
    if given.dataset is None:
        raise UsageError("--why is about a dataset: name it with --dataset FILE.py:NAME")
    for name in NOT_WITH_WHY:
        option = name.removeprefix("--").replace("-", "_")
        if getattr(given, option) != line.get_default(option):
            raise UsageError(
                f"{name} does not go with --why, which measures threads without the GIL once, and "
                "prints the answer"
            )
    if given.workers and max(given.workers) < 2:
        raise UsageError("--why compares threads with one: --workers 2 or more")


def _scenarios(given: argparse.Namespace) -> tuple[Scenario, ...]:
    """Return the scenarios that the arguments name, without --command; raises UsageError."""
    if given.dataset is not None:
        if given.scenarios:
            raise UsageError("--dataset is measured alone: name no scenario with it")
        return (_own(given.dataset, given.collate_fn),)
    if given.collate_fn is not None:
        raise UsageError("--collate-fn belongs to --dataset")
    if given.requirements is not None or given.package:
        raise UsageError("--requirements and --package belong to --dataset or --command")
    return choose_scenarios(given.scenarios)


def _runs_stress(given: argparse.Namespace) -> bool:
    """True if the arguments ask for the thread-safety suite, or do so by default."""
    if given.stress is not None:
        return given.stress
    if given.command is not None:  # the suite is about the loader
        return False
    if given.stress_minutes is not None or "all" in given.scenarios:
        return True
    return not given.scenarios and not given.quick


def _check_use(given: argparse.Namespace, scenarios: tuple[Scenario, ...]) -> None:
    """Raise UsageError if --data cannot be read, if no scenario has a use for --data or
    --batch-size, or if a scenario cannot do without workers.
    """
    if 0 in (given.workers or ()):
        _check_without_workers(scenarios)
    if given.data and not given.data.is_dir():
        state = "is not a directory" if given.data.exists() else "does not exist"
        raise UsageError(f"--data {given.data} {state}: name a directory that holds images")
    if given.data and not any(s.takes_data for s in scenarios):
        raise UsageError(
            f"--data is for images, which none of {', '.join(s.name for s in scenarios)} reads"
        )
    if given.batch_size and not any(s.batched for s in scenarios):
        raise UsageError(
            f"--batch-size is for what loads batches; {scenarios[0].name} loads nothing"
        )


def _check_without_workers(scenarios: tuple[Scenario, ...]) -> None:
    """Raise UsageError if one of the scenarios cannot be measured without workers."""
    if unable := next((s for s in scenarios if s.needs_workers), None):
        able = dict.fromkeys(s.group or s.name for s in SCENARIOS.values() if not s.needs_workers)
        raise UsageError(
            f"--workers 0 is for a loop that loads by itself, and {unable.name} needs workers: "
            f"{unable.needs_workers}. These do without: {', '.join(able)}, --dataset"
        )


def _with_ranks(
    scenarios: tuple[Scenario, ...], ranks: int
) -> tuple[tuple[Scenario, ...], tuple[tuple[str, str], ...]]:
    """Return (scenarios that this number of ranks can measure,
    (name, reason) of each of the others).

    Raises UsageError if no scenario is left.
    """
    if ranks == 1:
        return scenarios, ()
    able = tuple(s for s in scenarios if not s.one_rank)
    left_out = tuple((s.name, s.one_rank) for s in scenarios if s.one_rank)
    if not able:
        why = "; ".join(map(": ".join, left_out))
        raise UsageError(
            f"--ranks is for loading in several processes, and here one has to measure: {why}"
        )
    return able, left_out
