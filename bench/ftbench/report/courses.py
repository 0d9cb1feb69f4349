"""Charts of the curves that trials recorded: a quantity over the course of a trial."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from ftbench.document.model import Distribution, MeasuredScenario
from ftbench.plan.candidates import Candidate
from ftbench.plan.metrics import METRICS
from ftbench.report import run_words, tables
from ftbench.report.draw import MOST_FACETS, MOST_MARKS, Chart, Curves, Line
from ftbench.report.tables import Table

# Titles of curves, by name; others have the name itself.
TITLES = {
    "epoch": "Time of each epoch",
    "memory_mib": "Memory",
    "uss_mib": "Memory of their own (USS)",
}

Records = dict[str, list[Distribution]]
"""Curves that trials recorded under one name: {candidate's key: [curve of each round]}."""


class Course(NamedTuple):
    """One candidate's curve over all rounds, for each x that every round has."""

    x: Sequence[float]
    middle: list[float]
    """Medians of the rounds."""
    low: list[float]
    high: list[float]


def charts(scenario: MeasuredScenario) -> Iterator[Chart]:
    """Yield the charts of all curves that trials of the scenario recorded."""
    for name, records in _recorded(scenario).items():
        yield from _charts(scenario, name, records)


def _recorded(scenario: MeasuredScenario) -> dict[str, Records]:
    """Return the curves that trials recorded, by name."""
    curves: dict[str, Records] = {}
    for measured in tables.candidates(scenario, scenario.metrics[0]):
        key = measured.candidate.key
        for trial in scenario.trials_of(key):
            for name, curve in trial.distributions.items():
                records = curves.setdefault(name, {})
                records.setdefault(key, []).append(curve)
    return curves


def _charts(scenario: MeasuredScenario, name: str, records: Records) -> Iterator[Chart]:
    """Yield a chart for each case, with the curves *name*.

    If the curves of all candidates and rounds are equal, yield one chart with one curve.
    """
    first = next(iter(records.values()))[0]
    over, unit = first.over.title, first.unit
    courses: dict[Candidate, Course] = {}
    for key, rounds in records.items():
        courses[scenario.candidate(key)] = _course(rounds)
    facets = _by_case(scenario, courses, over, unit)
    caption = _caption(courses, over)
    if _all_equal([*courses.values()]):
        caption = (
            f"In every round of all {len(courses)} candidates the same values, to the last digit "
            "kept."
        )
        line = next(iter(facets.values()))[0]
        facets = {"the same for all": [replace(line, config="", variant="loader-thread")]}
    title = _title(name)
    table = _table(scenario, courses, over, unit)
    for number, (facet, lines) in enumerate(facets.items()):
        yield Chart(
            name=run_words.slug(f"{scenario.name}-{name}-curve-{number or ''}"),
            title=run_words.join(title, facet, separator=": "),
            caption=caption,
            picture=Curves(lines, over, unit),
            table=table,
            folded=f"more of {title}" if number >= MOST_FACETS else "",
        )


def _course(rounds: Sequence[Distribution]) -> Course:
    values = [curve.values for curve in rounds]
    columns = list(zip(*values, strict=False))
    return Course(
        x=rounds[0].over.values[: len(columns)],
        middle=[*map(median, columns)],
        low=[*map(min, columns)],
        high=[*map(max, columns)],
    )


def _title(name: str) -> str:
    if name in TITLES:
        return TITLES[name]
    title = METRICS[name].title if name in METRICS else name.replace("_", " ")
    return run_words.capital(title.replace("-", " "))


def _caption(courses: Mapping[Candidate, Course], over: str) -> str:
    points = len(next(iter(courses.values())).x)
    ranges = "shaded" if points > MOST_MARKS else "lines"
    return f"By {over}: medians of the rounds; {ranges}: from the lowest round to the highest."


def _all_equal(courses: Sequence[Course]) -> bool:
    """True if several candidates had the same values in all rounds."""
    first = courses[0]
    if len(courses) == 1 or first.low != first.high:
        return False
    return all(course == first for course in courses)


def _by_case(
    scenario: MeasuredScenario, courses: Mapping[Candidate, Course], over: str, unit: str
) -> dict[str, list[Line]]:
    """Return {title: lines with the most workers of a case}; the table has all."""
    most: dict[str, int] = defaultdict(int)
    for candidate in courses:
        most[candidate.case] = max(candidate.workers, most[candidate.case])
    several = len({candidate.workers for candidate in courses}) > 1
    facets = defaultdict(list)
    for candidate, course in courses.items():
        if candidate.workers == most[candidate.case]:
            case = run_words.case_title(scenario, candidate.case)
            workers = run_words.workers(candidate.workers) if several else ""
            line = _line(scenario, candidate, course, over, unit)
            facets[run_words.join(case, workers)].append(line)
    return facets


def _line(
    scenario: MeasuredScenario, candidate: Candidate, course: Course, over: str, unit: str
) -> Line:
    title = run_words.full_title(scenario, candidate)
    points = zip(course.x, course.middle, strict=True)
    return Line(
        config=candidate.config,
        variant=candidate.variant,
        label=run_words.label(candidate.config, candidate.variant),
        x=course.x,
        y=course.middle,
        low=course.low,
        high=course.high,
        hover=[f"{title}\n{over} {x:,g}\n{y:.4g} {unit}" for x, y in points],
    )


def _table(
    scenario: MeasuredScenario, courses: Mapping[Candidate, Course], over: str, unit: str
) -> Table:
    rows = []
    for candidate, course in courses.items():
        title = run_words.full_title(scenario, candidate)
        first, last = course.middle[0], course.middle[-1]
        largest = max(course.high)
        rows.append((title, f"{course.x[0]:,g}", f"{first:.4g}", f"{last:.4g}", f"{largest:.4g}"))
    head = "candidate", f"first {over}", f"{unit} there", "at the end", "largest of any round"
    return Table(head, tuple(rows), frozenset(range(1, 5)))
