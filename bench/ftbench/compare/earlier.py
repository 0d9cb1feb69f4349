"""Runs of the same machine, settings and software at other hours,
and the figures of their waterfalls.

A machine is known by its machine_id (ftrun.environment). Where that is unknown, as in containers,
the runs in one output root are those of one machine if their hardware is equal and no two of them
overlap in time.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
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
    expected, alike = identity(results), dict[str, Results]()
    for other in history.runs(root, results.environment.source):
        if identity(other) == expected and _start(other) is not None:
            alike[other.started] = other  # a copy of a run counts once
    return [*alike.values()]


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
    ordered = sorted(set(runs))
    overlapping = any(
        start + seconds > then > start for (start, seconds), (then, _) in pairwise(ordered)
    )
    return identified[MACHINE] == UNKNOWN and overlapping


def sets(a: tuple[Results, Path], b: tuple[Results, Path]) -> list[list[Results]]:
    """Return the runs like A and those like B, each from the output root of its file; one set if A
    and B are alike.
    """
    like_a, like_b = (_of_one_machine(results, _root(file)) for results, file in (a, b))
    if identity(a[0]) != identity(b[0]):
        return [like_a, like_b]
    return [list({run.started: run for run in (*like_a, *like_b)}.values())]


def _of_one_machine(results: Results, root: Path) -> list[Results]:
    """Return the runs like *results* in *root* (`same`); none if they are of several machines."""
    alike = same(results, root)
    return (
        []
        if _several_machines(
            identity(results), [(_start(run) or 0.0, run.seconds) for run in alike]
        )
        else alike
    )


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
            form = json.dumps([shared, place, part.waterfall.workers, part.workload]).encode()
            key = hashlib.sha256(form).hexdigest()
            figures = {
                name: (figure.mean, figure.error) for name, figure in part.throughput.items()
            }
            yield place, Entry(key, results.started, results.seconds, figures)


def at_all_hours(results: Results, file: Path) -> dict[Place, list[Entry]]:
    """Return the entries of a run's waterfalls, each with those of all runs like it; see `find`.

    A run's own entry alone where these runs may be of several machines.
    """
    by_place = dict(entries(results))
    alike: dict[Place, list[Entry]] = {place: [entry] for place, entry in by_place.items()}
    for other in same(results, _root(file)) if by_place else ():
        for place, entry in entries(other):
            if place in by_place and entry.key == by_place[place].key:
                alike[place].append(entry)
    for place, entry in by_place.items():
        # A run is in its folder, in the record, perhaps in a copy of the folder. Copies have the
        # same start: reversed, so that the run's own folder is kept.
        runs = {run.started: run for run in reversed(alike[place] + _recorded(results, entry))}
        alike[place] = list(runs.values())
        if _several_machines(identity(results), [(run.time, run.seconds) for run in runs.values()]):
            alike[place] = [entry]
    return alike


def _recorded(results: Results, entry: Entry) -> list[Entry]:
    """Return the runs like *entry* in the record of the run's cache folder (--cache)."""
    if not results.options.cache:
        return []
    recorded = history.recorded(Path(results.options.cache), entry.key)
    return [run for run in recorded if run.figures.keys() == entry.figures.keys()]


def find(results: Results, file: Path) -> dict[Place, dict[str, Hours]]:
    """Return {waterfall: {step or IN_ALL: what hours do to its ratio}} of a complete run;
    {} for an incomplete one.

    Looks for other runs next to the run's folder, where *file* is its results.json, and in the
    record of its cache.
    """
    by_place = {}
    for place, alike in at_all_hours(results, file).items():
        times = [entry.time for entry in alike]
        by_place[place] = {
            name: hours(
                [entry.figures[name] for entry in alike if name in entry.figures],
                max(times) - min(times),
            )
            for name in alike[0].figures
        }
    return by_place


def remember(results: Results) -> None:
    """Add the waterfalls of a complete run to the record in its cache folder (--cache),
    if it has one.
    """
    if results.options.cache:
        history.record(Path(results.options.cache), [entry for _, entry in entries(results)])
