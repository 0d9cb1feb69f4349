"""The command line of ``python -m ftbench``."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path

from ftbench.arguments import UsageError, parse
from ftbench.data.images import ImageError
from ftbench.document.results import Results, ResultsError, find, load, write_atomically
from ftbench.plan.sizing import DoesNotFit
from ftbench.rounds import trials
from ftrun.configurations import TWIN, this_twin
from ftrun.escape import any_locale, terminal
from ftrun.inline_metadata import MetadataError, dependencies
from ftrun.interruption import Interrupted, Interruption
from ftrun.twin import TwinError, TwinLost


def report_main(arguments: list[str]) -> int:
    """``python -m ftbench report PATH``: make PNG, page and tables again from results.json."""
    result = argparse.ArgumentParser(
        prog="python -m ftbench report",
        description="Make the report again from a results.json, beside it, and print it.",
    )
    result.add_argument("path", type=Path, metavar="PATH", help="a run's directory, or its results.json")
    result.add_argument(
        "--markdown", action="store_true", help="write nothing, print a summary in Markdown, to paste into an issue"
    )
    options = result.parse_args(arguments)
    from ftbench import report

    try:
        file = find(options.path)
        document = load(file)
    except ResultsError as error:
        raise UsageError(str(error)) from error
    if options.markdown:
        print(report.summary(document), end="", flush=True)
        return 0
    for name, content in report.files(document):
        try:
            write_atomically(file.parent / name, content)
        except OSError as error:
            raise ResultsError(
                f"cannot write {name} beside {file}: {error.strerror}. Copy results.json to a "
                "directory that you can write to, and report that"
            ) from error
    report.show(document, file.parent)
    return 0


COMPARE = """\
Put two runs side by side (of two machines, versions or commits) and say what changed beyond the
noise of both. Ratios within a run have the machine's speed taken out; values have not. A figure
counts as changed if its p-value, adjusted for the number of figures, is below 0.05, and the change
is more than 1%.
"""


def compare_main(arguments: list[str]) -> int:
    """``python -m ftbench compare A B``: what changed between two runs; returns the exit status."""
    result = argparse.ArgumentParser(
        prog="python -m ftbench compare",
        description=COMPARE,
        epilog="Exit status: 0 nothing changed beyond the noise, 1 something did (or an outcome of the thread-safety "
        "suite), 2 the runs cannot be read or "
        "have nothing in common.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, which in (("a", "earlier"), ("b", "later")):
        result.add_argument(
            name, type=Path, metavar=name.upper(), help=f"the {which} or other run: its directory or its results.json"
        )
    options = result.parse_args(arguments)
    from ftbench.report.changes import text
    from ftbench.stats.compare import compare

    try:
        a, b = load(options.a), load(options.b)
    except ResultsError as error:
        raise UsageError(str(error)) from error
    comparison = compare(a, b)
    print(text(comparison, (str(options.a), a), (str(options.b), b)), flush=True)
    if not comparison.changes:
        return 2
    return 1 if comparison.beyond_noise or comparison.outcomes else 0


def _requirements(file: Path | None, dataset: str | None) -> tuple[str, ...]:
    """The lines of a requirements file without comments; or what the dataset's file says. Raises UsageError."""
    source = Path((dataset or "").rpartition(":")[0])
    try:
        if file is not None:
            lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
            return tuple(line for line in lines if line)
        return dependencies(source.read_text(errors="replace")) if source.suffix == ".py" else ()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--requirements {file} cannot be read: {error}") from error
    except MetadataError as error:
        raise UsageError(f"{source}: {error}") from error


def run_main(arguments: list[str]) -> int:
    """Measure and report; returns the exit status."""
    given = parse(arguments)
    # What these import (rich, numpy, psutil) is not worth waiting for to see --help.
    from ftbench import report
    from ftbench.rounds import run
    from ftbench.rounds.controller import WorkDiffers
    from ftbench.rounds.options import Options
    from ftbench.rounds.progress import Display
    from ftbench.rounds.twins import split_configs

    twins = dict(given.twin)
    if len(twins) != len(given.twin):
        raise UsageError("--twin names the same twin twice")
    if not twins:
        twins = {this_twin(): sys.executable}
    configs, skipped = split_configs(given.configs, twins)
    if not configs:
        raise UsageError("nothing to measure: " + "; ".join(f"{s['what']}: {s['why']}" for s in skipped))
    options = Options(
        given.scenarios,
        given.quick,
        given.out,
        given.data,
        given.rounds,
        given.budget or sum(scenario.share(given.quick) for scenario in given.scenarios),
        given.workers,
        given.batch_size,
        tuple(configs),
        {name: where for name, where in twins.items() if name in {TWIN[c] for c in configs}},
        given.dataset,
        given.collate_fn,
        given.precision,
        _requirements(given.requirements, given.dataset),
        given.cache,
        given.stress,
        given.stress_minutes,
    )
    try:
        results = Results(options.out.absolute())
    except ResultsError as error:
        raise UsageError(str(error)) from error
    with Interruption() as interruption:
        status, why = 0, ""
        try:
            with Display() as shown:
                this = run.Run(options, results, interruption, shown)
                for each in skipped:
                    this.notes.skip(each["what"], each["why"])
                try:
                    this.measure()
                except Interrupted as error:
                    status = error.exit_status
                    this.stop(f"interrupted ({error})")
                    shown.note("interrupted; a second Ctrl-C ends at once")
                except (trials.TrialFailed, WorkDiffers, TwinLost, run.ScenariosFailed, run.StressFailed) as error:
                    status, why = 1, str(error)
                    this.stop(why)
                except TwinError as error:
                    status, why = 2, str(error)
                    this.stop(why)
            if why:
                print(f"bench: {terminal(why)}", file=sys.stderr)
            if not this.finished_rounds:
                why = "" if status else ": " + "; ".join(f"{s['what']}: {s['why']}" for s in this.document["skipped"])
                print(f"bench: no round was finished, so there is nothing to report{terminal(why)}", file=sys.stderr)
                return status or 1
            this.save()
            assert results.directory, "made by saving"
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
    any_locale()
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == ["report"]:
            return report_main(arguments[1:])
        if arguments[:1] == ["compare"]:
            return compare_main(arguments[1:])
        return run_main(arguments)
    except (UsageError, ImageError, DoesNotFit) as error:
        print(f"bench: {terminal(str(error))}", file=sys.stderr)
        return 2
    except ResultsError as error:
        print(f"bench: {terminal(str(error))}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before anything was begun: see Interruption
        return 130
    except BrokenPipeError:
        # Whoever read the output has had enough (| head); what is left of it must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell says it of what SIGPIPE ended
