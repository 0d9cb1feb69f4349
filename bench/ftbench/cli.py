"""The command line of ``python -m ftbench``."""

import contextlib
import os
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ftbench.arguments import (
    UsageError,
    check_budget,
    compare_parser,
    merge_parser,
    parse,
    report_parser,
)
from ftbench.data.images import ImageError
from ftbench.document.model import Options, Results, SkippedPart
from ftbench.document.store import ResultsError, RunDirectory, find, load, write_atomically
from ftbench.options import RunOptions
from ftbench.plan.sizing import DoesNotFit
from ftbench.stats.analysis import Analysis, analyse
from ftbench.trial.process import TrialFailed
from ftrun import escape, host
from ftrun.configurations import TWIN, this_twin
from ftrun.errors import Interrupted, MetadataError, TwinError, TwinLost
from ftrun.inline_metadata import dependencies
from ftrun.interruption import Interruption

if TYPE_CHECKING:
    from ftbench.rounds.twins import Twins

NAME = host.command("./twins bench")
"""The command that messages begin with."""


def report_main(arguments: list[str]) -> int:
    """Remake the report of an earlier run (``python -m ftbench report PATH``);
    return the exit status, 0.
    """
    options = report_parser().parse_args(arguments)
    from ftbench.compare import earlier
    from ftbench.report import files, markdown, terminal
    from ftbench.report.view import view

    run = analyse(load(options.path))
    file = find(options.path).absolute()
    run.hours = earlier.find(run.results, file)
    page = file.parent / "report.html"
    report_view = view(run, file.parent, page, options.tables)
    if options.markdown:
        print(markdown.write(report_view).decode(), end="", flush=True)
        return 0
    for name, content in files.write(report_view):
        try:
            write_atomically(file.parent / name, content)
        except OSError as error:
            raise ResultsError(
                f"cannot write {name} beside {file}: {error.strerror}. Copy results.json to a "
                "directory that you can write to, and report that"
            ) from error
    terminal.write(report_view)
    return 0


def compare_main(arguments: list[str]) -> int:
    """Print what changed between two runs (``python -m ftbench compare A B``);
    return the exit status.
    """
    options = compare_parser().parse_args(arguments)
    from ftbench.compare import earlier, text
    from ftbench.compare.comparing import compare
    from ftbench.compare.view import view

    a, b = load(options.a), load(options.b)
    comparison = compare(a, b, earlier.sets((a, find(options.a)), (b, find(options.b))))
    report_view = view(comparison, (str(options.a), a), (str(options.b), b))
    print(text.write(report_view), flush=True)
    if not comparison.changes:
        return 2
    if options.worse:
        return int(bool(comparison.worse))
    return int(bool(comparison.beyond_noise or comparison.outcomes))


def merge_main(arguments: list[str]) -> int:
    """Merge the runs of many machines (``python -m ftbench merge RUN...``);
    return the exit status.
    """
    options = merge_parser().parse_args(arguments)
    from ftbench.merge import files, terminal
    from ftbench.merge.merging import merge
    from ftbench.merge.view import view

    if options.out:
        files.check(options.out)
    merged = merge(options.runs)
    report_view = view(merged)
    if options.out and merged.groups:
        report_view = replace(report_view, page=files.write(report_view, options.out))
    terminal.write(report_view)
    if not merged.groups:
        return 2
    outliers = any(group.outliers for group in merged.groups)
    return 1 if merged.left_out or merged.apart or outliers else 0


def _requirements(options: RunOptions) -> list[str]:
    """Return the packages of --package and those listed in --requirements, or without either, in
    the PEP 723 metadata of the source file of the dataset or command.
    """
    file, source = options.requirements, Path((options.dataset or "").rpartition(":")[0])
    if options.command:
        words = options.command.words(options.command.values[0], options.command.line)
        files = (word for word in words if word.endswith(".py") and os.path.isfile(word))
        source = Path(next(files, ""))
    try:
        if file is not None:
            lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
            return [*options.packages, *filter(None, lines)]
        if options.packages or source.suffix != ".py":
            return list(options.packages)
        return list(dependencies(source.read_text(errors="replace")))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--requirements {file} cannot be read: {error}") from error
    except MetadataError as error:
        raise UsageError(f"{source}: {error}") from error


def _record(options: RunOptions) -> Results:
    """Return the record of a new run; raises UsageError if nothing can be measured."""
    from ftbench.rounds.twins import split_configs

    twins = dict(options.twin)
    if len(twins) != len(options.twin):
        raise UsageError("--twin names the same twin twice")
    twins = twins or {this_twin(): sys.executable}
    configs, skipped = split_configs(options.configs, twins)
    if not configs:
        raise UsageError(
            "nothing to measure: " + "; ".join(f"{part.what}: {part.why}" for part in skipped)
        )
    check_budget(options, configs)
    skipped += [
        SkippedPart(name, f"several ranks cannot measure it: {why}")
        for name, why in options.left_out
    ]
    twin_names = {TWIN[config] for config in configs}
    record = Options(
        scenarios=[scenario.name for scenario in options.scenarios],
        quick=options.quick,
        out=str(options.out),
        data=_text(options.data),
        rounds=options.rounds,
        budget=options.budget
        or sum(scenario.share(options.quick) for scenario in options.scenarios),
        workers=options.workers,
        ranks=options.ranks,
        batch_size=options.batch_size,
        configs=configs,
        twins={name: where for name, where in twins.items() if name in twin_names},
        precision=options.precision,
        requirements=_requirements(options),
        cache=_text(options.cache),
        dataset=options.dataset,
        collate_fn=options.collate_fn,
        command=options.command.options() if options.command else [],
        stress=options.stress,
        stress_minutes=options.stress_minutes,
        folders=host.folders(),
    )
    return Results(record, started=datetime.now(UTC).isoformat(timespec="seconds"), skipped=skipped)


def _text(path: Path | None) -> str | None:
    return str(path) if path else None


def _report(run: Analysis, directory: RunDirectory, detailed: bool) -> None:
    """Write the report's files and print the report; if writing fails,
    still print it, then raise ResultsError.
    """
    from ftbench.compare import earlier
    from ftbench.report import files, terminal
    from ftbench.report.view import view

    assert directory.directory, "made by saving"
    run.hours = earlier.find(run.results, directory.directory / "results.json")
    earlier.remember(run.results)
    report_view = view(run, directory.directory, detailed=detailed)
    try:
        for name, content in files.write(report_view):
            directory.write(name, content)
        report_view = replace(report_view, page=directory.directory / "report.html")
        directory.publish()
    finally:
        # The reader of stdout may have gone (| head), which rich answers with SystemExit.
        with contextlib.suppress(BrokenPipeError, SystemExit):
            terminal.write(report_view)


def _measure(
    options: RunOptions, interruption: Interruption, twins: "Twins"
) -> tuple[int, Analysis | None]:
    """Run the benchmark once and write its report; return the exit status, and the run's analysis
    if it has rounds.
    """
    # These modules import rich, numpy and psutil, which takes too long for --help.
    from ftbench.rounds import run
    from ftbench.rounds.controller import WorkDiffers
    from ftbench.rounds.progress import Display

    results = _record(options)
    directory = RunDirectory(options.out.absolute())
    status, why = 0, ""
    with Display(results) as display:
        for part in results.skipped:
            display.note(f"left out: {part.what}: {part.why}")
        this = run.Run(results, options.scenarios, directory, interruption, display, twins)
        try:
            this.measure()
        except Interrupted as error:
            status = error.exit_status
            this.stop(f"interrupted ({error})")
            display.note("interrupted; a second Ctrl-C ends at once")
        except (TrialFailed, WorkDiffers, TwinLost, run.RunFailed) as error:
            status, why = 1, str(error)
            this.stop(why)
        except TwinError as error:
            status, why = 2, str(error)
            this.stop(why)
    if why:
        print(f"{NAME}: {escape.terminal(why)}", file=sys.stderr)
    if not results.scenarios:
        why = "" if status else ": " + "; ".join(f"{s.what}: {s.why}" for s in results.skipped)
        nothing = f"no round was finished, so there is nothing to report{escape.terminal(why)}"
        print(f"{NAME}: {nothing}", file=sys.stderr)
        return status or 1, None
    analysis = this.finish()
    _report(analysis, directory, options.tables)
    return status, analysis


def _answer_why(options: RunOptions, interruption: Interruption, twins: "Twins") -> int:
    """Print why threads of the dataset do not scale (--why); return the exit status."""
    from ftbench.report import why as why_report
    from ftbench.rounds import why
    from ftbench.rounds.progress import Display

    results = _record(options)
    (scenario,) = options.scenarios
    try:
        with Display(results) as display:
            answer = why.measure(results, scenario, twins, display, interruption)
    except Interrupted as error:
        print(f"{NAME}: interrupted", file=sys.stderr)
        return error.exit_status
    except (TrialFailed, TwinError) as error:
        print(f"{NAME}: {escape.terminal(str(error))}", file=sys.stderr)
        return 1 if isinstance(error, TrialFailed | TwinLost) else 2
    why_report.write(why_report.view(options.dataset or "", answer))
    return 0


def run_main(arguments: list[str]) -> int:
    """Run the benchmark, once or --again, and write a report of each run; return the exit status,
    the worst of all.
    """
    options = parse(arguments)
    from ftbench.rounds.twins import Twins

    with Interruption() as interruption, contextlib.closing(Twins()) as twins:
        if options.why:
            return _answer_why(options, interruption, twins)
        started = time.monotonic()
        status, latest = _measure(options, interruption, twins)
        # A run that cannot start is not tried again.
        # A later one may fail without ending a set of days.
        later = range(2, options.again + 1) if latest and status != 2 else ()
        for number in later:
            started, worse = started + options.every, 0
            try:
                _wait(f"run {number} of {options.again}", started - time.monotonic(), interruption)
                worse, run = _measure(options, interruption, twins)
                status, latest = max(status, worse), run or latest
            except Interrupted as error:
                status = error.exit_status
                print(
                    f"{NAME}: interrupted; run {number} was not begun, and those before are kept",
                    file=sys.stderr,
                )
            except (ImageError, DoesNotFit, ResultsError) as error:
                status = max(status, 1)
                print(f"{NAME}: {escape.terminal(str(error))}", file=sys.stderr)
            if interruption.wanted() or worse == 2:
                # without its twins, no further run can do better
                break
    if latest and later:
        _say_of_set(latest)
    return status


def _wait(what: str, seconds: float, interruption: Interruption) -> None:
    """Say when the next run of a set starts, and wait until then;
    raises Interrupted as soon as a signal arrives.
    """
    interruption.check()
    if seconds > 0:
        moment = datetime.now() + timedelta(seconds=seconds)
        ends = "Ctrl-C ends the set, and keeps the runs before"
        print(f"{what} starts at {moment:%Y-%m-%d %H:%M:%S}. {ends}", file=sys.stderr, flush=True)
    interruption.wait(max(0.0, seconds))


def _say_of_set(run: Analysis) -> None:
    """Print what the runs of a set say of hours; *run* is the last of them."""
    from ftbench.report import hour_words, run_words, terminal

    with terminal.printed() as console:
        for fall in run.waterfalls:
            workload = run_words.opening(fall.unit, fall.workload)
            sentences = hour_words.sentences(run, fall)
            terminal.say(console, [f"{workload}: {sentence}" for sentence in sentences], "bold")


def main(arguments: list[str] | None = None) -> int:
    """Run the command in `arguments` (default: sys.argv); return its exit status."""
    escape.any_locale()
    arguments = sys.argv[1:] if arguments is None else arguments
    rest = arguments
    while rest[:1] in (["--out"], ["--twin"]):  # compose.yaml has them in front of any verb
        rest = rest[2:]
    verb = "".join(rest[:1])
    run = {"report": report_main, "compare": compare_main, "merge": merge_main}.get(verb)
    name = f"{NAME} {verb}" if run else NAME
    try:
        return run(rest[1:]) if run else run_main(arguments)
    except (UsageError, ImageError, DoesNotFit, ResultsError) as error:
        print(f"{name}: {escape.terminal(str(error))}", file=sys.stderr)
        return 1 if type(error) is ResultsError else 2
    except BrokenPipeError:
        # The reader of the output has gone (| head); the rest must not fail again at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # the status that a shell reports for a process that SIGPIPE ended
