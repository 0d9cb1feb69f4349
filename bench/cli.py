"""The command line of ``python -m bench``."""

from __future__ import annotations

import argparse
import contextlib
import sys
import sysconfig
from pathlib import Path

from bench import trials
from bench.arguments import UsageError, parse
from bench.endpoints import EndpointError, EndpointLost
from bench.images import ImageError
from bench.interruption import Interrupted, Interruption
from bench.results import Results, ResultsError, load, write_atomically
from bench.sizing import DoesNotFit


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
    given = parse(arguments)
    # What these import (rich, numpy, psutil) is not worth waiting for to see --help.
    from bench import report, run
    from bench.controller import WorkDiffers
    from bench.progress import display
    from bench.twins import split_configs

    twins = dict(given.twin)
    if len(twins) != len(given.twin):
        raise UsageError("--twin names the same twin twice")
    if not twins:
        twins = {"ft" if sysconfig.get_config_var("Py_GIL_DISABLED") else "gil": sys.executable}
    configs, skipped = split_configs(given.configs, twins)
    if not configs:
        raise UsageError("nothing to measure: " + "; ".join(f"{s['what']}: {s['why']}" for s in skipped))
    options = run.Options(
        given.scenarios, given.quick, given.out, given.data, given.rounds,
        given.budget or sum(scenario.share(given.quick) for scenario in given.scenarios),
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
