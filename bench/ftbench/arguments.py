"""What a run is asked for: the command line, checked as far as it can be without measuring.

Imports nothing but the standard library and runs on Python 3.9: `./twins bench` asks it before it
builds anything, so that a typing error does not cost ten minutes.
"""

from __future__ import annotations

import argparse
import difflib
import math
from pathlib import Path

from ftbench.plan.contestants import CONFIGS
from ftbench.plan.scenario import Scenario
from ftbench.scenarios import DEFAULT, GROUPS, SCENARIOS, members, own
from ftbench.stats.waterfall import PRECISION

DESCRIPTION = """\
Measure what removing the GIL does to data loading. From torch's DataLoader with processes on ordinary Python to
threads without the GIL, one thing is changed at a time, and each step is given with its interval: a waterfall. It is
measured for JPEG decoding, which releases the GIL, and for text in Python, which holds it, or for your own dataset.

All contestants take turns of a fraction of a second, in several processes each, so that what disturbs one disturbs
all. The run ends as soon as every step is known to --precision, or when its time is over.
"""

EPILOG = """\
A twin's ENDPOINT is a Python executable, or unix:PATH of a `python -m ftbench.trial_server` that runs in
another container. Without --twin, the Python that runs this is measured alone.

  PROGRAM --quick                            the waterfalls, within five minutes of measuring
  PROGRAM --dataset train.py:train_set       for your own dataset
  PROGRAM --list                             the scenarios and their groups
  PROGRAM all --quick                        every scenario once; Ctrl-C keeps what is finished
  PROGRAM pillow --data ~/photos             with your own images
  PROGRAM peers --workers 2                  this loader against torch, torchdata and spdl, with targets
  PROGRAM --quick --stress                   and is the loader, and what it uses, safe under threads?
  PROGRAM report DIR                         make the report of a run again; --markdown for an issue
  PROGRAM compare A B                        what changed between two runs, beyond the noise

Exit status: 0 complete, 1 a trial, the thread-safety suite or writing failed, 2 wrong usage or
input, 130 or 143 when interrupted (finished rounds are reported, marked incomplete).
"""


class UsageError(Exception):
    """The command line asks for what cannot be done."""


def parser(program: str = "python -m ftbench") -> argparse.ArgumentParser:
    """The command line of a run, as it is typed."""
    result = argparse.ArgumentParser(
        prog=program,
        description=DESCRIPTION,
        epilog=EPILOG.replace("PROGRAM", program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = result.add_argument
    add(
        "scenarios",
        nargs="*",
        metavar="SCENARIO",
        help=f"what to measure: scenarios, groups or all (default: {', '.join(DEFAULT)})",
    )
    add(
        "--quick",
        action="store_true",
        help="the waterfalls alone, with smaller batches: within five minutes of measuring",
    )
    add(
        "--out",
        type=Path,
        default=Path("results"),
        metavar="DIR",
        help="where results go: DIR/<time>/, and DIR/latest (default: %(default)s)",
    )
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="use the images below DIR instead of generated ones, wherever images are read",
    )
    add(
        "--dataset",
        metavar="FILE.py:NAME",
        help="your own map-style dataset instead of the scenarios: an object, or a function or class that gives one",
    )
    add("--collate-fn", metavar="NAME", help="its collate_fn, in the same file (default: torch's)")
    add(
        "--requirements",
        type=Path,
        metavar="FILE",
        help="packages that the dataset needs and the twins lack, as for pip; they are installed for this run alone "
        "(default: the dependencies in its file's inline metadata, PEP 723)",
    )
    add("--cache", type=Path, help=argparse.SUPPRESS)
    add("--rounds", type=_positive, metavar="N", help="exactly N rounds, whatever they take (default: as many as fit)")
    add(
        "--budget",
        type=_seconds,
        metavar="SECONDS",
        help="time for the whole run (default: the scenarios' own, 1200 without names, --quick 300)",
    )
    add(
        "--precision",
        type=_percent,
        default=PRECISION,
        metavar="PERCENT",
        help="end early once every step of the waterfall is known to so much, up and down (default: 5%%)",
    )
    add("--workers", type=_workers, metavar="1,2,4", help="numbers of workers (default: 1, 2, 4, ... CPUs)")
    add("--batch-size", type=_positive, metavar="N", help="samples a batch (default: the scenario's)")
    add(
        "--configs",
        type=_configs,
        default=CONFIGS,
        metavar=",".join(CONFIGS),
        help="configurations: GIL build, free-threaded build with its GIL on, free-threaded build",
    )
    add(
        "--stress",
        action=argparse.BooleanOptionalAction,
        help="afterwards, run the thread-safety suite (tests/stress) in every configuration, for about a minute each "
        "and beyond --budget (default: with all, and if no SCENARIO is named, without --quick)",
    )
    add(
        "--stress-minutes",
        type=_soak,
        metavar="M",
        help="minutes for the thread-safety suite in each configuration: a soak",
    )
    add("--list", action="store_true", help="list the scenarios, what they answer and how long they take, and end")
    add(
        "--twin",
        action="append",
        type=_twin,
        default=[],
        metavar="ft|gil=ENDPOINT",
        help="an interpreter to measure; once for each twin",
    )
    return result


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _number(text: str) -> float:
    """NaN if it is none, which lies within no bounds."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _seconds(text: str) -> float:
    seconds = _number(text)
    if not 1 <= seconds <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds (1 or more)")
    return seconds


def _percent(text: str) -> float:
    percent = _number(text.removesuffix("%"))
    if not 0.1 <= percent <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a precision (0.1% to 100%)")
    return percent / 100


def _soak(text: str) -> float:
    minutes = _number(text)
    if not 0 < minutes <= 1e4:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes")
    return minutes


def _workers(text: str) -> tuple[int, ...]:
    counts = {_positive(part) for part in text.split(",")}
    if max(counts) > 1024:
        raise argparse.ArgumentTypeError("more than 1024 workers")
    return tuple(sorted(counts))


def _configs(text: str) -> tuple[str, ...]:
    unknown = [part for part in text.split(",") if part not in CONFIGS]
    if unknown:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(map(repr, unknown))}; known: {', '.join(CONFIGS)}")
    return tuple(config for config in CONFIGS if config in text.split(","))


def _twin(text: str) -> tuple[str, str]:
    name, _, where = text.partition("=")
    if name not in ("ft", "gil") or not where:
        raise argparse.ArgumentTypeError(f"{text!r} is not ft=ENDPOINT or gil=ENDPOINT")
    return name, where


def choose_scenarios(names: list[str]) -> tuple:
    """The scenarios of these names and groups, each once, or the default; raises UsageError."""
    known = [*SCENARIOS, *GROUPS, "all"]
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise UsageError(f"unknown scenario {name!r}: {hint}known: {', '.join(known)}")
    chosen = {scenario.name: scenario for name in names or DEFAULT for scenario in members(name)}
    return tuple(chosen.values())


def _own(target: str, collate_fn: str | None) -> Scenario:
    """The scenario of the user's own dataset; raises UsageError."""
    file, _, name = target.rpartition(":")
    if not file or not name:
        raise UsageError(f"--dataset {target}: FILE.py:NAME is wanted, such as train.py:train_set")
    if file.endswith(".py"):
        if not Path(file).is_file():
            raise UsageError(f"--dataset {target}: there is no file {file}")
        # Trials run elsewhere.
        file = str(Path(file).absolute())
    return own.scenario(f"{file}:{name}", f"{file}:{collate_fn}" if collate_fn else None)


def _minutes(seconds: float) -> str:
    """A run's expected time: "9 min", "40 s"."""
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


TIMES = """\
These are budgets: rounds are repeated until the time is spent, and where it is short contestants are left out,
the least important first. On a slow or busy machine three rounds of the most important ones can take longer.
--budget SECONDS changes the time, --rounds N does without it."""


def listing() -> str:
    """The scenarios with their questions and how long they take, those of a group below it, and all."""
    width = max(len(name) + 2 for name in [*SCENARIOS, *GROUPS])

    def line(name: str, text: str, of: list, indent: str = "") -> str:
        full, quick = (_minutes(sum(s.share(quick) for s in of)) for quick in (False, True))
        return f"{indent}{name:{width - len(indent)}}  {full:>7}  {quick:>7}  {text}"

    lines = [f"{'':{width}}  {'full':>7}  {'quick':>7}"]
    lines += [line(s.name, s.question or s.description, [s]) for s in SCENARIOS.values() if not s.group]
    for group, description in GROUPS.items():
        lines += ["", line(group, description, members(group))]
        lines += [line(s.name, s.question or s.description, [s], "  ") for s in members(group)]
    lines += ["", line("all", "everything above, in this order, in one report", members("all")), "", TIMES]
    return "\n".join(lines)


def parse(arguments: list[str], program: str = "python -m ftbench") -> argparse.Namespace:
    """The options of a run; scenarios as a tuple of Scenario.

    Raises UsageError for what cannot be measured, and SystemExit for --help (0), --list (0) and what
    argparse refuses (2).
    """
    command = parser(program)
    # Scenarios may stand before and after options.
    given = command.parse_intermixed_args(arguments)
    if given.list:
        print(listing(), flush=True)
        command.exit()
    named = given.scenarios
    if given.dataset is not None:
        if named:
            raise UsageError("--dataset is measured alone: name no scenario with it")
        given.scenarios = (_own(given.dataset, given.collate_fn),)
    elif given.collate_fn is not None or given.requirements is not None:
        raise UsageError("--collate-fn and --requirements belong to --dataset")
    else:
        given.scenarios = choose_scenarios(named)
    if given.stress_minutes is not None and given.stress is False:
        raise UsageError("--stress-minutes says how long what --no-stress leaves out takes: give one of them")
    if given.stress is None:
        given.stress = given.stress_minutes is not None or "all" in named or not (named or given.quick)
    if given.data and not given.data.is_dir():
        what = "is not a directory" if given.data.exists() else "does not exist"
        raise UsageError(f"--data {given.data} {what}: name a directory that holds images")
    if given.data and not any(s.takes_data for s in given.scenarios):
        raise UsageError(f"--data is for images, which none of {', '.join(s.name for s in given.scenarios)} reads")
    if given.batch_size and not any(s.batched for s in given.scenarios):
        raise UsageError(f"--batch-size is for what loads batches; {given.scenarios[0].name} loads nothing")
    return given
