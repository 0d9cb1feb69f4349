"""The command line of ``python -m bench``."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import sys
import sysconfig
from pathlib import Path

from bench import trials
from bench.contestants import CONFIGS
from bench.endpoints import EndpointError, EndpointLost
from bench.images import ImageError
from bench.interruption import Interrupted, Interruption
from bench.results import Results, ResultsError, load, write_atomically
from bench.scenarios import SCENARIOS
from bench.sizing import DoesNotFit

DESCRIPTION = """\
Measure what removing the GIL does to data loading: threads against processes, in a
free-threaded Python, the same with its GIL on, and a Python built with the GIL.

All contestants take turns in rounds, each in a fresh process, so that what disturbs one
disturbs all. The report gives their ratios with a confidence interval, next to the noise
floor that the same run has measured, and calls nothing a difference that noise also shows.
"""

EPILOG = """\
A twin's ENDPOINT is a Python executable, or unix:PATH of a `python -m bench.peer` that runs in
another container. Without --twin, the Python that runs this is measured alone.

  python -m bench --list                   the scenarios
  python -m bench --quick                  a first look, within two minutes
  python -m bench pillow --data ~/photos   with your own images
  python -m bench report FILE              make the report again from a results.json

Exit status: 0 complete, 1 a trial or writing failed, 2 wrong usage or input, 130 or 143 when
interrupted (finished rounds are reported, marked incomplete).
"""


class UsageError(Exception):
    """The command line asks for what cannot be done."""


def parser() -> argparse.ArgumentParser:
    """The command line of a run."""
    result = argparse.ArgumentParser(
        prog="python -m bench", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add = result.add_argument
    add("scenarios", nargs="*", metavar="SCENARIO", help="what to measure (default: all)")
    add("--quick", action="store_true", help="fewer contestants and smaller batches: within two minutes")
    add("--out", type=Path, default=Path("results"), metavar="DIR",
        help="where results go: DIR/<time>/, and DIR/latest (default: %(default)s)")
    add("--data", type=Path, metavar="DIR", help="use the images below DIR instead of generated ones")
    add("--rounds", type=_positive, metavar="N", help="exactly N rounds, whatever they take (default: as many as fit)")
    add("--budget", type=_seconds, metavar="SECONDS", help="time for the whole run (default: 560, --quick 105)")
    add("--workers", type=_workers, metavar="1,2,4", help="numbers of workers (default: 1, 2, 4, ... CPUs)")
    add("--batch-size", type=_positive, metavar="N", help="samples a batch (default: the scenario's)")
    add("--configs", type=_configs, default=CONFIGS, metavar=",".join(CONFIGS),
        help="configurations: GIL build, free-threaded build with its GIL on, free-threaded build")
    add("--list", action="store_true", help="list the scenarios and end")
    add("--twin", action="append", type=_twin, default=[], metavar="ft|gil=ENDPOINT",
        help="an interpreter to measure; once for each twin")
    return result


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 1 <= seconds <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds (1 or more)")
    return seconds


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
    """The scenarios of these names, or all; raises UsageError."""
    for name in names:
        if name not in SCENARIOS:
            close = difflib.get_close_matches(name, SCENARIOS, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise UsageError(f"unknown scenario {name!r}: {hint}known: {', '.join(SCENARIOS)}")
    return tuple(SCENARIOS[name] for name in dict.fromkeys(names or SCENARIOS))


def report_main(arguments: list[str]) -> int:
    """``python -m bench report FILE``: make PNG, page and tables again from results.json."""
    result = argparse.ArgumentParser(
        prog="python -m bench report",
        description="Make the report again from a results.json, beside it, and print it.")
    result.add_argument("file", type=Path, metavar="results.json")
    options = result.parse_args(arguments)
    from bench import report

    try:
        document = load(options.file)
    except ResultsError as error:
        raise UsageError(str(error)) from error
    for name, content in report.files(document):
        try:
            write_atomically(options.file.parent / name, content)
        except OSError as error:
            raise ResultsError(f"cannot write {name} beside {options.file}: {error.strerror}") from error
    report.show(document, options.file.parent)
    return 0


def run_main(arguments: list[str]) -> int:
    """Measure and report; returns the exit status."""
    command = parser()
    # Scenarios may stand before and after options.
    given = command.parse_intermixed_args(arguments)
    if given.list:
        width = max(map(len, SCENARIOS))
        for scenario in SCENARIOS.values():
            print(f"{scenario.name:{width}}  {scenario.description}")
        return 0
    # What these import (rich, numpy, psutil) is not worth waiting for to see --help.
    from bench import report, run
    from bench.controller import WorkDiffers
    from bench.progress import display
    from bench.twins import split_configs

    scenarios = choose_scenarios(given.scenarios)
    twins = dict(given.twin)
    if len(twins) != len(given.twin):
        raise UsageError("--twin names the same twin twice")
    if not twins:
        twins = {"ft" if sysconfig.get_config_var("Py_GIL_DISABLED") else "gil": sys.executable}
    configs, skipped = split_configs(given.configs, twins)
    if not configs:
        raise UsageError("nothing to measure: " + "; ".join(f"{s['what']}: {s['why']}" for s in skipped))
    options = run.Options(
        scenarios, given.quick, given.out, given.data, given.rounds,
        given.budget or (run.QUICK_SECONDS if given.quick else run.DEFAULT_SECONDS),
        given.workers, given.batch_size, tuple(configs),
        {name: where for name, where in twins.items() if name in {trials.TWIN[c] for c in configs}})
    try:
        results = Results(options.out.absolute())
    except ResultsError as error:
        raise UsageError(str(error)) from error
    with Interruption() as interruption:
        status = 0
        try:
            with display() as shown:
                this = run.Run(options, results, interruption, shown)
                for each in skipped:
                    this.skip(each["what"], each["why"])
                try:
                    this.measure()
                except Interrupted as error:
                    status = error.exit_status
                    this.stop(f"interrupted ({error})")
                    shown.note("interrupted; a second Ctrl-C ends at once")
                except (trials.TrialFailed, WorkDiffers, EndpointLost) as error:
                    status = 1
                    this.stop(str(error))
                except EndpointError as error:
                    status = 2
                    this.stop(str(error))
            if status in (1, 2):
                print(f"bench: {this.document['reason']}", file=sys.stderr)
            if not this.finished_rounds:
                print("bench: no round was finished, so there is nothing to report", file=sys.stderr)
                return status
            this.save()
            # Whoever read stdout may have gone (| head), which rich answers with SystemExit; the
            # files are made all the same.
            with contextlib.suppress(BrokenPipeError, SystemExit):
                report.show(this.document, results.directory)
            for name, content in report.files(this.document):
                results.write(name, content)
            results.publish()
        finally:
            results.discard_empty_root()
        return status


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == ["report"]:
            return report_main(arguments[1:])
        return run_main(arguments)
    except (UsageError, ImageError, DoesNotFit) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except ResultsError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before anything was begun: see Interruption
        return 130
