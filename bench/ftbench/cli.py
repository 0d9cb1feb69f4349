"""The command line of ``python -m ftbench``."""

import contextlib
import os
import sys
from argparse import Namespace
from dataclasses import fields
from pathlib import Path

from ftbench.arguments import Options, UsageError, compare_parser, parse, report_parser
from ftbench.data.images import ImageError
from ftbench.document.model import Results
from ftbench.document.store import ResultsError, RunDirectory, find, load, write_atomically
from ftbench.plan.sizing import DoesNotFit
from ftbench.stats.analysis import Analysis, analyse
from ftbench.trial.process import TrialFailed
from ftrun import escape
from ftrun.configurations import TWIN, this_twin
from ftrun.escape import any_locale
from ftrun.inline_metadata import MetadataError, dependencies
from ftrun.interruption import Interrupted, Interruption
from ftrun.twin import TwinError, TwinLost


def _read(path: Path) -> Results:
    """Return the results.json that was named on the command line; raises UsageError."""
    try:
        return load(path)
    except ResultsError as error:
        raise UsageError(str(error)) from error


def report_main(arguments: list[str]) -> int:
    """Make PNG, page and tables again from results.json (``python -m ftbench report PATH``)."""
    options = report_parser().parse_args(arguments)
    from ftbench.report import markdown, page, terminal

    run = analyse(_read(options.path))
    if options.markdown:
        print(markdown.summary(run), end="", flush=True)
        return 0
    file = find(options.path)
    for name, content in page.files(run):
        try:
            write_atomically(file.parent / name, content)
        except OSError as error:
            raise ResultsError(
                f"cannot write {name} beside {file}: {error.strerror}. Copy results.json to a "
                "directory that you can write to, and report that"
            ) from error
    terminal.show(run, file.parent / "report.html")
    return 0


def compare_main(arguments: list[str]) -> int:
    """Print what changed between two runs (``python -m ftbench compare A B``); return the exit status."""
    options = compare_parser().parse_args(arguments)
    from ftbench.report.changes import text
    from ftbench.report.compare import compare

    a, b = _read(options.a), _read(options.b)
    comparison = compare(a, b)
    print(text(comparison, (str(options.a), a), (str(options.b), b)), flush=True)
    if not comparison.changes:
        return 2
    return 1 if comparison.beyond_noise or comparison.outcomes else 0


def _requirements(file: Path | None, dataset: str | None) -> tuple[str, ...]:
    """Return the lines of a requirements file, or the dataset file's inline dependencies. Raises UsageError."""
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


def _options(given: Namespace) -> tuple[Options, list[tuple[str, str]]]:
    """Return the options of a run, and (what, why) of configurations that no twin was given for. Raises UsageError."""
    from ftbench.rounds.twins import split_configs

    twins = dict(given.twin)
    if len(twins) != len(given.twin):
        raise UsageError("--twin names the same twin twice")
    if not twins:
        twins = {this_twin(): sys.executable}
    configs, skipped = split_configs(given.configs, twins)
    if not configs:
        raise UsageError("nothing to measure: " + "; ".join(f"{what}: {why}" for what, why in skipped))
    given.configs = tuple(configs)
    given.twins = {name: where for name, where in twins.items() if name in {TWIN[c] for c in configs}}
    given.budget = given.budget or sum(scenario.share(given.quick) for scenario in given.scenarios)
    given.requirements = _requirements(given.requirements, given.dataset)
    return Options(**{field.name: getattr(given, field.name) for field in fields(Options)}), skipped


def _report(run: Analysis, directory: RunDirectory) -> None:
    """Write a run's report and show it, whether or not a file could be written; raises ResultsError."""
    from ftbench.report import page, terminal

    assert directory.directory, "made by saving"
    written = None
    try:
        for name, content in page.files(run):
            directory.write(name, content)
        written = directory.directory / "report.html"
        directory.publish()
    finally:
        # The reader of stdout may have gone (| head), which rich answers with SystemExit.
        with contextlib.suppress(BrokenPipeError, SystemExit):
            terminal.show(run, written)


def run_main(arguments: list[str]) -> int:
    """Measure and report; return the exit status."""
    given = parse(arguments)
    # Their imports (rich, numpy, psutil) take too long for --help.
    from ftbench.rounds import run
    from ftbench.rounds.controller import WorkDiffers
    from ftbench.rounds.progress import Display

    options, skipped = _options(given)
    try:
        directory = RunDirectory(options.out.absolute())
    except ResultsError as error:
        raise UsageError(str(error)) from error
    with Interruption() as interruption:
        status, why = 0, ""
        try:
            with Display() as shown:
                this = run.Run(options, directory, interruption, shown)
                for what, why in skipped:
                    this.notes.skip(what, why)
                why = ""
                try:
                    this.measure()
                except Interrupted as error:
                    status = error.exit_status
                    this.stop(f"interrupted ({error})")
                    shown.note("interrupted; a second Ctrl-C ends at once")
                except (TrialFailed, WorkDiffers, TwinLost, run.RunFailed) as error:
                    status, why = 1, str(error)
                    this.stop(why)
                except TwinError as error:
                    status, why = 2, str(error)
                    this.stop(why)
            if why:
                print(f"bench: {escape.terminal(why)}", file=sys.stderr)
            if not this.results.scenarios:
                why = "" if status else ": " + "; ".join(f"{s.what}: {s.why}" for s in this.results.skipped)
                print(
                    f"bench: no round was finished, so there is nothing to report{escape.terminal(why)}",
                    file=sys.stderr,
                )
                return status or 1
            _report(this.finish(), directory)
        finally:
            directory.discard_empty_root()
        return status


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    any_locale()
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments[:1] == ["report"]:
            return report_main(arguments[1:])
        if arguments[:1] == ["compare"]:
            return compare_main(arguments[1:])
        return run_main(arguments)
    except (UsageError, ImageError, DoesNotFit, ResultsError) as error:
        print(f"bench: {escape.terminal(str(error))}", file=sys.stderr)
        return 1 if isinstance(error, ResultsError) else 2
    except KeyboardInterrupt:  # before anything was begun: see Interruption
        return 130
    except BrokenPipeError:
        # The reader of the output has gone (| head); the rest must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell says it of what SIGPIPE ended
