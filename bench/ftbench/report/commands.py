"""The commands that repeat a run, from the options that its results.json records."""

import math
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from ftbench.document.model import Change, Options, Results
from ftbench.plan.candidates import CONFIGS
from ftbench.plan.waterfall import PRECISION
from ftbench.report import hour_words
from ftbench.stats.analysis import Analysis
from ftbench.stats.comparisons import more_minutes
from ftbench.stats.statistics import FEWEST_ROUNDS
from ftrun import host
from ftrun.escape import one_line

DEFAULT_SERIES = "3.13"  # the same as in docker/python-series


def options(settings: Options) -> list[str]:
    """Return the command-line arguments of `bench` for these options. Options with default values
    are left out.
    """
    is_own = settings.dataset is not None
    arguments = [] if is_own else list(settings.scenarios)
    flags = {"--quick": settings.quick, "--stress": settings.stress}
    # The suite is part of a full run that names no scenario.
    flags["--no-stress"] = is_own and not (settings.quick or settings.stress)
    arguments += [flag for flag, is_given in flags.items() if is_given]
    for name, value in (*_of_dataset(settings), *_of_measurement(settings)):
        if value:
            arguments += [name, str(value)]
    return [one_line(argument) for argument in arguments]


def _of_dataset(settings: Options) -> list[tuple[str, str | None]]:
    if settings.dataset is None:
        return []
    requirements = "requirements.txt" if settings.requirements else None
    return [
        ("--dataset", settings.dataset),
        ("--collate-fn", settings.collate_fn),
        ("--requirements", requirements),
    ]


def _of_measurement(settings: Options) -> list[tuple[str, Any]]:
    budget = f"{settings.budget:g}" if settings.rounds is None else None
    minutes = f"{settings.stress_minutes:g}" if settings.stress_minutes else None
    return [
        ("--rounds", settings.rounds),
        ("--budget", budget),
        ("--precision", settings.precision != PRECISION and f"{100 * settings.precision:g}%"),
        ("--workers", settings.workers and ",".join(map(str, settings.workers))),
        ("--ranks", settings.ranks),
        ("--batch-size", settings.batch_size),
        ("--data", settings.data),
        ("--configs", set(settings.configs) != set(CONFIGS) and ",".join(settings.configs)),
        ("--stress-minutes", minutes),
    ]


def commands(run: Analysis, where: Path = Path()) -> list[tuple[str, str]]:
    """Return pairs (purpose, command line): check out the sources, measure again or longer, render
    the report again.

    `where` is the directory of the run's results.json.
    """
    results = run.results
    commit = results.environment.revision.commit
    lines = [
        (
            "The same sources, in a clone of the repository",
            f"git checkout {shlex.quote(one_line(commit))}",
        ),
        ("The same measurement", _command(results, results.options, docker=False)),
        ("The same with Docker", _command(results, results.options, docker=True)),
        *further(run),
        (
            "This report again, from results.json alone",
            host.report(one_line(str(where / "results.json"))),
        ),
    ]
    return lines if commit != "unknown" else lines[1:]


def _command(results: Results, settings: Options, docker: bool) -> str:
    """Return the command of a run with these options: docker compose with container paths if
    `docker`, or ./twins.
    """
    folders: dict[str, str] = {}
    data, dataset = settings.data, settings.dataset
    if in_containers(results):
        folders, data, dataset = _from_containers(settings, docker)
    elif docker:
        if data is not None:
            folders["DATA"], data = data, "/data"
        if dataset is not None:
            folders["CODE"], dataset = os.path.split(dataset)
    arguments = " ".join(map(host.quoted, options(replace(settings, data=data, dataset=dataset))))
    if not docker:
        return f"{_series(results)}./twins bench {arguments}"
    before = host.assignments({name: one_line(where) for name, where in folders.items()})
    return f"{before}{_series(results)}docker compose run --rm ft-bench {arguments}"


def _from_containers(
    settings: Options, docker: bool
) -> tuple[dict[str, str], str | None, str | None]:
    """Return (folders, --data, --dataset) for a run in containers, as the command needs them."""
    data, dataset = settings.data, settings.dataset
    folders = {"DATA": "your/images"} if data else {}
    folders.update(settings.folders)
    if not docker and data is not None:
        data = re.sub("^/data(?=/|$)", lambda _: folders["DATA"], data)
    if not docker and dataset is not None:
        dataset = os.path.join(folders.get("CODE", ""), dataset)
    return folders, data, dataset


def in_containers(results: Results) -> bool:
    """True if the run measured in containers."""
    return any(where.startswith("unix:") for where in results.options.twins.values())


def further(run: Analysis) -> list[tuple[str, str]]:
    """Return pairs (purpose, command line): longer runs (`longer`), and a set of runs if only one
    hour is known.
    """
    if not hour_words.one_hour(run):
        return longer(run)
    command = _command(run.results, run.results.options, in_containers(run.results))
    return [*longer(run), ("The same at other hours", f"{command} {hour_words.SET}")]


def longer(run: Analysis) -> list[tuple[str, str]]:
    """Return pairs (purpose, command line): further runs
    that would decide the ratios that this run left undecided.

    The first run repeats the scenarios with too few rounds. The second run is longer and repeats
    the scenarios with an undecided waterfall. Each of these scenarios gets the same additional
    time: the most that any of them needs.
    """
    settings, docker = run.results.options, in_containers(run.results)
    runs: list[tuple[str, dict[str, Any]]] = []
    few = [s.name for s in run.results.scenarios if len(s.rounds) < FEWEST_ROUNDS]
    if few:
        # a run without --rounds has enough
        runs.append(("A run of enough rounds", {"scenarios": few}))
    minutes: dict[str, int] = {}
    precision, purpose = settings.precision, "what is open"
    for fall in run.waterfalls:
        for change in fall.throughput.changes.values():
            more = more_minutes(run.scenario(fall.scenario), change)
            if more == 0:
                purpose = "some of what is open"
            if more:
                minutes[fall.scenario] = max(more, minutes.get(fall.scenario, 0))
                precision = min(precision, _precision(change))
    if minutes:
        budget = settings.budget + 60 * len(minutes) * max(minutes.values())
        precision = int(1000 * precision) / 1000
        settled = {"scenarios": [*minutes], "budget": budget, "precision": precision}
        runs.append((f"A run that would settle {purpose}", settled))
    lines = []
    for purpose, changed in runs:
        longer_run = replace(settings, **{"rounds": None, **changed})
        lines.append((purpose, _command(run.results, longer_run, docker)))
    return lines


def _precision(undecided: Change) -> float:
    """Return half the width of an undecided ratio's interval after the minutes that settle it."""
    assert undecided.low and undecided.high and undecided.resolution, "more_minutes needs them"
    half = math.log(undecided.high / undecided.low) / 2
    return half * abs(math.log(undecided.ratio)) / math.log(undecided.resolution)


def stress(results: Results) -> str:
    """Return the command of a quick run with the thread-safety suite,
    in Docker if this run was in Docker.
    """
    bench = "docker compose run --rm ft-bench" if in_containers(results) else "./twins bench"
    return f"{_series(results)}{bench} --quick --stress"


def audit(results: Results) -> str:
    """Return the command that looks for races in the run's dataset (--dataset), in Docker if this
    run was in Docker.
    """
    mounted = results.options.folders if in_containers(results) else None
    return one_line(host.audit(results.options.dataset or "", mounted))


def _series(results: Results) -> str:
    """Return the prefix of a command for this run's version of Python: "PYTHON_SERIES=3.14 ", or ""
    for the default.
    """
    versions = {t.interpreter.version for t in results.environment.twins.values()}
    series = {".".join(version.split(".")[:2]) for version in versions}
    only = one_line(next(iter(series)))
    return (
        f"PYTHON_SERIES={shlex.quote(only)} " if len(series) == 1 and only != DEFAULT_SERIES else ""
    )
