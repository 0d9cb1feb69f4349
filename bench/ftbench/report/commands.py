"""The commands that repeat a run, from the options that its results.json records."""

import itertools
import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
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
    arguments = [*_scenarios(settings), *_flags(settings)]
    for name, value in (_of_dataset(settings) | _of_measurement(settings)).items():
        if value:
            arguments += [name, str(value)]
    return [one_line(argument) for argument in arguments]


def _scenarios(settings: Options) -> list[str]:
    # A user-supplied dataset or command is a scenario by itself, which no argument names.
    if settings.command:
        packages = itertools.product(["--package"], settings.requirements)
        return [*settings.command, *itertools.chain.from_iterable(packages)]
    return settings.scenarios if settings.dataset is None else []


def _flags(settings: Options) -> Iterator[str]:
    if settings.quick:
        yield "--quick"
    if settings.stress:
        yield "--stress"
    # The suite is part of a full run that names no scenario.
    if settings.dataset is not None and not (settings.quick or settings.stress):
        yield "--no-stress"


def _of_dataset(settings: Options) -> dict[str, str | None]:
    requirements = None
    if settings.requirements and not settings.command:
        requirements = "requirements.txt"
    return {
        "--dataset": settings.dataset,
        "--collate-fn": settings.collate_fn,
        "--requirements": requirements,
    }


def _of_measurement(settings: Options) -> dict[str, Any]:
    budget, precision, configs, minutes = "", "", "", ""
    if settings.rounds is None:
        budget = f"{settings.budget:g}"
    if settings.precision != PRECISION:
        precision = f"{100 * settings.precision:g}%"
    if {*settings.configs} != {*CONFIGS}:
        configs = ",".join(settings.configs)
    if settings.stress_minutes:
        minutes = f"{settings.stress_minutes:g}"
    return {
        "--rounds": settings.rounds,
        "--budget": budget,
        "--precision": precision,
        "--workers": ",".join(map(str, settings.workers or [])),
        "--ranks": settings.ranks,
        "--batch-size": settings.batch_size,
        "--data": settings.data,
        "--configs": configs,
        "--stress-minutes": minutes,
    }


Commands = list[tuple[str, str]]
"""Pairs (purpose, command line)."""


def commands(run: Analysis, where: Path = Path()) -> Commands:
    """Return the commands that check out the sources, measure again or longer, render
    the report again.

    `where` is the directory of the run's results.json.
    """
    results = run.results
    commit = results.environment.revision.commit
    checkout = f"git checkout {shlex.quote(one_line(commit))}"
    report = host.report(one_line(str(where / "results.json")))
    lines = [
        ("The same sources, in a clone of the repository", checkout),
        ("The same measurement", _command(results, results.options, docker=False)),
        ("The same with Docker", _command(results, results.options, docker=True)),
        *further(run),
        ("This report again, from results.json alone", report),
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
    mapped = replace(settings, data=data, dataset=dataset)
    arguments = " ".join(map(host.quoted, options(mapped)))
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


def further(run: Analysis) -> Commands:
    """Return the commands of longer runs (`longer`), and of a set of runs if only one hour is
    known.
    """
    runs, results = longer(run), run.results
    if hour_words.one_hour(run):
        command = _command(results, results.options, in_containers(results))
        runs.append(("The same at other hours", f"{command} {hour_words.SET}"))
    return runs


def longer(run: Analysis) -> Commands:
    """Return the commands of further runs that would decide what this run left undecided.

    The first run repeats the scenarios with too few rounds. The second run is longer and repeats
    the scenarios with an undecided waterfall. Each of these scenarios gets the same additional
    time: the most that any of them needs.
    """
    settings, docker = run.results.options, in_containers(run.results)
    runs: dict[str, Options] = {}
    few = {s.name: len(s.rounds) for s in run.results.scenarios if len(s.rounds) < FEWEST_ROUNDS}
    if few:
        runs["A run of enough rounds"] = _with_enough_rounds(settings, few)
    undecided = _undecided(run)
    if undecided.minutes:
        minutes = len(undecided.minutes) * max(undecided.minutes.values())
        purpose = "some of what is open" if undecided.hopeless else "what is open"
        runs[f"A run that would settle {purpose}"] = replace(
            settings,
            rounds=None,
            scenarios=[*undecided.minutes],
            budget=settings.budget + 60 * minutes,
            precision=int(1000 * undecided.precision) / 1000,
        )
    lines = []
    for purpose, options_of_run in runs.items():
        lines.append((purpose, _command(run.results, options_of_run, docker)))
    return lines


def _with_enough_rounds(settings: Options, few: Mapping[str, int]) -> Options:
    """Return the options of a run with these scenarios; *few*: their numbers of rounds so far."""
    budget = settings.budget
    if settings.rounds is None:  # the time was too short, or the run was interrupted
        budget = math.ceil(1.5 * budget * FEWEST_ROUNDS / max(1, min(few.values())))
    return replace(settings, rounds=None, scenarios=[*few], budget=budget)


@dataclass
class Undecided:
    """The ratios of waterfalls that a run left undecided."""

    precision: float
    """Half the width of an interval that settles all of them, or --precision if smaller."""
    minutes: dict[str, int] = field(default_factory=dict)
    """{scenario: further minutes that settle its ratios}"""
    hopeless: bool = False
    """True if settling one of them would take too long."""


def _undecided(run: Analysis) -> Undecided:
    undecided = Undecided(run.results.options.precision)
    for fall in run.waterfalls:
        name, scenario = fall.scenario, run.scenario(fall.scenario)
        for change in fall.throughput.all_changes.values():
            minutes = more_minutes(scenario, change)
            if minutes == 0:
                undecided.hopeless = True
            if minutes:
                undecided.minutes[name] = max(minutes, undecided.minutes.get(name, 0))
                undecided.precision = min(undecided.precision, _precision(change))
    return undecided


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
    if len(series) > 1:
        return ""
    only = one_line(series.pop())
    return "" if only == DEFAULT_SERIES else f"PYTHON_SERIES={shlex.quote(only)} "
