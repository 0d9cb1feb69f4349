"""Runs of the same machine, settings and software at other hours,
and the figures of their waterfalls.

A machine is known by its machine_id (ftrun.environment). Where that is unknown, as in containers,
the runs in one output root are those of one machine if their hardware is equal and no two of them
overlap in time.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from ftbench.compare.identity import MACHINE, UNKNOWN, identity
from ftbench.compare.waterfalls import ComparableWaterfall, waterfalls
from ftbench.document import history
from ftbench.document.history import Entry
from ftbench.document.model import Results
from ftbench.stats.analysis import analyse
from ftbench.stats.hours import Hours, hours

Place = tuple[str, str]
"""A waterfall of a run: the names of its scenario and its case."""


def same(results: Results, root: Path) -> list[Results]:
    """Return the complete runs in the output root *root* of the machine,
    settings and software of *results*.
    """
    expected = identity(results)
    alike = []
    for other in history.runs(root, results.environment.source):
        if identity(other) == expected and _start(other) is not None:
            alike.append(other)
    return _without_copies(alike)


def _without_copies[Run: (Results, Entry)](runs: Iterable[Run]) -> list[Run]:
    """Return the last run of each start: runs of the same start are copies."""
    return list({run.started: run for run in runs}.values())


def _start(results: Results) -> float | None:
    """Return the start of a run in seconds since 1970; None if the record holds no time."""
    try:
        return datetime.fromisoformat(results.started).timestamp()
    except (ValueError, OverflowError):
        return None


def _several_machines(identified: Mapping[str, str], runs: Iterable[tuple[float, float]]) -> bool:
    """True if the machine is unknown, and *runs* (start, duration in seconds) overlap, which one
    machine's runs do not.

    Runs whose starts are equal are copies of one run.
    """
    if identified[MACHINE] != UNKNOWN:
        return False
    for (start, seconds), (then, _) in pairwise(sorted(set(runs))):
        if start + seconds > then > start:
            return True
    return False


def sets(a: tuple[Results, Path], b: tuple[Results, Path]) -> list[list[Results]]:
    """Return the runs like A and those like B, each from the output root of its file; one set if A
    and B are alike.
    """
    like_a = _of_one_machine(*a)
    like_b = _of_one_machine(*b)
    if identity(a[0]) != identity(b[0]):
        return [like_a, like_b]
    return [_without_copies(like_a + like_b)]


def _of_one_machine(results: Results, file: Path) -> list[Results]:
    """Return the runs like *results* in the output root of *file* (`same`); none if they are of
    several machines.
    """
    alike = same(results, _root(file))
    times = [(_start(run) or 0.0, run.seconds) for run in alike]
    if _several_machines(identity(results), times):
        return []
    return alike


def _root(file: Path) -> Path:
    """Return the output root of a run, from the path of its results.json."""
    return file.resolve().parent.parent


def entries(results: Results) -> Iterator[tuple[Place, Entry]]:
    """Yield the comparable waterfalls of a complete run as entries of the record."""
    if results.status != "complete" or _start(results) is None:
        return
    shared = identity(results)
    for part in waterfalls(analyse(results)):
        if isinstance(part, ComparableWaterfall):
            place = part.waterfall.scenario, part.waterfall.case
            form = [shared, place, part.waterfall.workers, part.workload]
            key = hashlib.sha256(json.dumps(form).encode()).hexdigest()
            figures = {}
            for step, figure in part.throughput.items():
                figures[step] = figure.mean, figure.error
            yield place, Entry(key, results.started, results.seconds, figures)


def at_all_hours(results: Results, file: Path) -> dict[Place, list[Entry]]:
    """Return the entries of a run's waterfalls, each with those of all runs like it; see `find`.

    A run's own entry alone where these runs may be of several machines.
    """
    by_place = dict(entries(results))
    if not by_place:
        return {}
    in_root: defaultdict[tuple[Place, str], list[Entry]] = defaultdict(list)
    for run in same(results, _root(file)):
        for place, entry in entries(run):
            in_root[place, entry.key].append(entry)
    alike = {}
    for place, entry in by_place.items():
        runs = [entry, *in_root[place, entry.key], *_recorded(results, entry)]
        alike[place] = _of_hours(results, runs)
    return alike


def _of_hours(results: Results, runs: Sequence[Entry]) -> list[Entry]:
    """Return the runs without copies; the first alone if they may be of several machines."""
    # A run is in its folder, in the record, perhaps in a copy of the folder. Copies have the
    # same start: reversed, so that the run's own folder is kept.
    alike = _without_copies(reversed(runs))
    times = [(run.time, run.seconds) for run in alike]
    if _several_machines(identity(results), times):
        return [runs[0]]
    return alike


def _recorded(results: Results, entry: Entry) -> list[Entry]:
    """Return the runs like *entry* in the record of the run's cache folder (--cache)."""
    if not results.options.cache:
        return []
    runs = []
    for run in history.recorded(Path(results.options.cache), entry.key):
        if run.figures.keys() == entry.figures.keys():
            runs.append(run)
    return runs


def find(results: Results, file: Path) -> dict[Place, dict[str, Hours]]:
    """Return {waterfall: {step or IN_ALL: what hours do to its ratio}} of a complete run;
    {} for an incomplete one.

    Looks for other runs next to the run's folder, where *file* is its results.json, and in the
    record of its cache.
    """
    by_place = {}
    for place, alike in at_all_hours(results, file).items():
        times = [entry.time for entry in alike]
        seconds = max(times) - min(times)
        by_step = {}
        for step in alike[0].figures:
            by_step[step] = hours(history.figures_of(alike, step), seconds)
        by_place[place] = by_step
    return by_place


def remember(results: Results) -> None:
    """Add the waterfalls of a complete run to the record in its cache folder (--cache),
    if it has one.
    """
    if results.options.cache:
        history.record(Path(results.options.cache), dict(entries(results)).values())
