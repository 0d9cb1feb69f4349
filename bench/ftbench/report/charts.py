"""Selection of the charts of a scenario, and their contents;
ftbench.report.draw draws the charts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from ftbench.document.model import Distribution, MeasuredScenario
from ftbench.plan.candidates import VARIANTS, Candidate
from ftbench.plan.metrics import METRICS, Metric
from ftbench.report import run_words, style, tables, verdict_words
from ftbench.report.draw import MOST_MARKS, Chart, Curves, Line, Row, Rows
from ftbench.report.tables import Measured, Table
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftbench.stats.comparisons import MeasuredComparison

# The most charts of single cases that are shown; others are shown on request.
MOST_FACETS = 4
# Titles of curves that trials recorded, by name; others have the name itself.
TITLES = {
    "epoch": "Time of each epoch",
    "memory_mib": "Memory",
    "uss_mib": "Memory of their own (USS)",
}
RANGES = "Geometric means of the rounds; lines: from the lowest round to the highest."


def charts(scenario: AnalysedScenario) -> list[Chart]:
    """Return all charts of a scenario: main metric, ratios,
    curves that trials recorded, other metrics.
    """
    record = scenario.record
    first, *further = (METRICS[name] for name in record.metrics)
    selected = [*_measured(record, first), *_ratios(scenario, first)]
    for name, recorded in kept(record).items():
        selected += _courses(record, name, recorded)
    for metric in further:
        selected += _measured(record, metric, metric.noun)
    return selected


def _title(name: str) -> str:
    title = METRICS[name].title if name in METRICS else name.replace("_", " ")
    return TITLES.get(name) or run_words.capital(title.replace("-", " "))


def _name(*parts: object) -> str:
    return run_words.slug("-".join(str(part) for part in parts if part))


def _measured(scenario: MeasuredScenario, metric: Metric, folded: str = "") -> Iterator[Chart]:
    """Yield a metric's charts: curves over cases or workers if possible,
    else bars. *folded*: see Chart.folded.
    """
    measured = tables.candidates(scenario, metric.name)
    over_cases, table = bool(_places(scenario)), tables.measured(scenario, metric)
    if measured and not over_cases and not _is_curve(measured):
        title = f"{metric.title}: {metric.best} is better"
        picture = _bars(scenario, metric, measured)
        yield Chart(_name(scenario.name, metric.name, 0), title, RANGES, picture, table, folded)
        return
    groups: dict[Any, list[Measured]] = {}
    for m in measured:
        groups.setdefault(m.candidate.workers if over_cases else m.candidate.case, []).append(m)
    keys = sorted(groups, reverse=True) if over_cases else [*groups]
    most = 1 if over_cases else MOST_FACETS
    for number, key in enumerate(keys):
        which = _which(scenario, key) if len(groups) > 1 else ""
        yield Chart(
            _name(scenario.name, metric.name, number),
            f"{metric.title}{which}: {metric.best} is better",
            RANGES,
            _curves(scenario, metric, groups[key]),
            table,
            folded or (which.strip(" ,") if number >= most else ""),
        )


def _which(scenario: MeasuredScenario, key: str | int) -> str:
    """Return the part of a title that names a number of workers, or a case."""
    if isinstance(key, int):
        return f" with {run_words.workers(key)}"
    return f", {run_words.case_title(scenario, key)}"


def _is_curve(measured: Sequence[Measured]) -> bool:
    """True if the numbers of workers make a curve. Two do if one of them is 0."""
    counts = {m.candidate.workers for m in measured}
    return len(counts) > 2 or 0 in counts


def _hover(scenario: MeasuredScenario, metric: Metric, m: Measured) -> str:
    rounds = ", ".join(metric.write(value) for value in m.values[:8]) + (
        ", ..." if len(m.values) > 8 else ""
    )
    return (
        f"{run_words.full_title(scenario, m.candidate)}\nmean {metric.write(m.typical)} "
        f"{metric.unit}"
        f"\n{metric.write(m.low)} to {metric.write(m.high)}\nrounds: {rounds}"
    )


def _bars(scenario: MeasuredScenario, metric: Metric, measured: Sequence[Measured]) -> Rows:
    counts = {m.candidate.workers for m in measured}
    groups: dict[str, list[Row]] = {}
    for m in measured:
        c = m.candidate
        fields = (
            run_words.own_title(c),
            m.typical,
            m.low,
            m.high,
            _hover(scenario, metric, m),
            c.config,
            c.variant,
        )
        row = Row(*fields, text=metric.write(m.typical))
        groups.setdefault(run_words.case_title(scenario, c.case), []).append(row)
    ideal = (
        {"workers": max(counts), "1": 1}.get(metric.ideal)
        if len(counts) == 1 or metric.ideal == "1"
        else None
    )
    return Rows(list(groups.items()), metric.unit, ideal=ideal)


def _places(scenario: MeasuredScenario) -> dict[str, float]:
    """Return {case: x value in curves over the cases}; {} for a single case, or if x values are
    equal or missing.
    """
    places = {case.name: case.value for case in scenario.cases if case.value is not None}
    return places if len(scenario.cases) == len(set(places.values())) > 1 else {}


def _curves(scenario: MeasuredScenario, metric: Metric, measured: Sequence[Measured]) -> Curves:
    """Return a metric's picture: curves over the cases, or over the number of workers if the cases
    have no axis.
    """
    places = _places(scenario)
    points: dict[tuple[str, str], list[tuple]] = {}
    for m in measured:
        c = m.candidate
        point = places.get(c.case, c.workers), m.typical, m.low, m.high, _hover(scenario, metric, m)
        points.setdefault((c.config, c.variant), []).append(point)
    lines = [
        Line(*side, run_words.label(*side), *zip(*sorted(values), strict=True))
        for side, values in points.items()
    ]
    if not places:
        return _over_workers(metric, lines, measured)
    marks = {
        value: name.replace("-", " ")
        for name, value in sorted(places.items(), key=lambda item: item[1])
    }
    far = style.far_apart(end for m in measured for end in (m.low, m.high))
    level = [(x, 1.0) for x in marks] if metric.ideal == "1" else []
    return Curves(
        lines, scenario.case_axis or "case", metric.unit, marks, style.far_apart(marks), far, level
    )


def _over_workers(metric: Metric, lines: Sequence[Line], measured: Sequence[Measured]) -> Curves:
    """Return the picture of *lines* over the number of workers, with the ideal line."""
    counts = sorted({m.candidate.workers for m in measured})
    ideal = _ideal(metric, counts, [m.typical for m in measured if m.candidate.workers == 1])
    wide = min(counts) > 0 and len(counts) > 3
    return Curves(lines, "workers", metric.unit, {n: str(n) for n in counts}, wide, ideal=ideal)


def _ideal(
    metric: Metric, counts: Sequence[int], of_one: Sequence[float]
) -> list[tuple[float, float]]:
    """Return the ideal line: 1, or the best value
    of one worker (*of_one*) times the number of workers.
    """
    if metric.ideal == "1":
        return [(number, 1.0) for number in counts]
    single = 1.0 if metric.ideal else max(of_one, default=0.0)
    if metric.best != "higher" or metric.unit == "%" or not single:
        return []
    return [(number, number * single) for number in counts]


def _ratios(analysed: AnalysedScenario, metric: Metric) -> Iterator[Chart]:
    """Yield a chart of the scenario's main ratios (if any),
    with a table of all ratios in *metric*.
    """
    scenario = analysed.record
    every, chosen = analysed.compared(metric.name), analysed.principal()
    if not chosen:
        return
    groups: dict[str, list[Row]] = {}
    for c in chosen:
        title = run_words.title(
            scenario, c.numerator, c.denominator, with_case=c.numerator.case != c.denominator.case
        )
        estimate = c.estimate
        factor = f"{verdict_words.figure(estimate.ratio)}x"
        hover = f"{run_words.title_with_why(scenario, c)}\n{factor} ({verdict_words.interval(c)})"
        words = f"{factor}: {verdict_words.short(c)}"
        row = Row(
            title,
            estimate.ratio,
            estimate.low,
            estimate.high,
            hover,
            detail=words,
            shown=estimate.shown,
        )
        groups.setdefault(run_words.case_title(scenario, c.numerator.case), []).append(row)
    about = "Who is faster" if metric.name == "throughput" else f"{metric.title}: who is better"
    yield Chart(
        _name(scenario.name, metric.name, "ratios"),
        f"{about}, and is it certain?",
        f"Ratios of {metric.noun} within rounds, with 95% confidence intervals. Filled: a "
        f"difference is shown.",
        Rows(list(groups.items()), f"ratio of {metric.noun}", ratios=True),
        tables.ratios(scenario, every),
    )


Kept = dict[str, list[Distribution]]
"""Curves that trials recorded under one name: {candidate's key: [curve of each round]}."""


def kept(scenario: MeasuredScenario) -> dict[str, Kept]:
    """Return the curves that trials recorded, by name."""
    curves: dict[str, Kept] = {}
    for c in (m.candidate for m in tables.candidates(scenario, scenario.metrics[0])):
        for trial in scenario.trials_of(c.key):
            for name, values in trial.distributions.items():
                curves.setdefault(name, {}).setdefault(c.key, []).append(values)
    return curves


Curve = tuple[Sequence[float], list[float], list[float], list[float]]
"""Lists (x, median, lowest, highest value of the rounds)."""


def _curve(rounds: Sequence[Distribution]) -> Curve:
    """Return lists (x, median, lowest, highest value of the rounds) of a curve, for each x that
    every round has.
    """
    at_each = list(zip(*(trial.values for trial in rounds), strict=False))
    x = rounds[0].over.values[: len(at_each)]
    middle, low, high = ([summary(column) for column in at_each] for summary in (median, min, max))
    return x, middle, low, high


def _most_workers(candidates: Sequence[Candidate]) -> dict[str, int]:
    """Return {case: the largest number of workers of its candidates}."""
    return {
        case: max(c.workers for c in candidates if c.case == case)
        for case in {c.case for c in candidates}
    }


def _courses(scenario: MeasuredScenario, name: str, kept: Kept) -> Iterator[Chart]:
    """Yield a chart for each case, with the curves *name* that trials recorded.

    If the curves of all candidates and rounds are equal, yield one chart with one curve.
    """
    first, label = next(iter(kept.values()))[0], _title(name)
    unit, over = first.unit, first.over.title
    candidates = [scenario.candidate(key) for key in kept]
    curves = [_curve(rounds) for rounds in kept.values()]
    lines = [
        _course(scenario, candidate, curve, over, unit)
        for candidate, curve in zip(candidates, curves, strict=True)
    ]
    titles = [run_words.full_title(scenario, candidate) for candidate in candidates]
    table = _table_of_courses(titles, curves, over, unit)
    ranges = "shaded" if len(curves[0][0]) > MOST_MARKS else "lines"
    caption = f"By {over}: medians of the rounds; {ranges}: from the lowest round to the highest."
    parts = _by_case(scenario, candidates, lines)
    if _all_equal(curves):
        caption = (
            f"In every round of all {len(curves)} candidates the same values, to the last "
            f"digit kept."
        )
        parts = {
            "the same for all": [
                replace(next(iter(parts.values()))[0], config="", variant="loader-thread")
            ]
        }
    for number, (which, drawn) in enumerate(parts.items()):
        yield Chart(
            _name(scenario.name, name, "curve", number),
            f"{label}: {which}" if which else label,
            caption,
            Curves(drawn, over, unit),
            table,
            f"more of {label}" if number >= MOST_FACETS else "",
        )


def _all_equal(curves: Sequence[Curve]) -> bool:
    """True if several candidates had the same values in all rounds."""
    _, _, low, high = curves[0]
    return len(curves) > 1 and low == high and all(curve == curves[0] for curve in curves)


def _by_case(
    scenario: MeasuredScenario, candidates: Sequence[Candidate], lines: Sequence[Line]
) -> dict[str, list[Line]]:
    """Return {title: lines with the most workers of a case}; the table has all."""
    most = _most_workers(candidates)
    several = len({candidate.workers for candidate in candidates}) > 1
    parts: dict[str, list[Line]] = {}
    for candidate, line in zip(candidates, lines, strict=True):
        if candidate.workers == most[candidate.case]:
            words = [run_words.case_title(scenario, candidate.case)]
            if several:
                words.append(run_words.workers(candidate.workers))
            parts.setdefault(", ".join(filter(None, words)), []).append(line)
    return parts


def _course(
    scenario: MeasuredScenario, candidate: Candidate, curve: Curve, over: str, unit: str
) -> Line:
    x, middle, low, high = curve
    title = run_words.full_title(scenario, candidate)
    hover = [f"{title}\n{over} {at:,g}\n{y:.4g} {unit}" for at, y in zip(x, middle, strict=True)]
    label = run_words.label(candidate.config, candidate.variant)
    return Line(candidate.config, candidate.variant, label, x, middle, low, high, hover)


def _table_of_courses(
    titles: Sequence[str], curves: Sequence[Curve], over: str, unit: str
) -> Table:
    rows = [
        (title, f"{x[0]:,g}", f"{middle[0]:.4g}", f"{middle[-1]:.4g}", f"{max(high):.4g}")
        for title, (x, middle, _, high) in zip(titles, curves, strict=True)
    ]
    head = "candidate", f"first {over}", f"{unit} there", "at the end", "largest of any round"
    return Table(head, tuple(rows), frozenset(range(1, 5)))


def overview(run: Analysis) -> Chart | None:
    """Return a chart of threads without the GIL against processes with it; None if there are fewer
    than two ratios.
    """
    comparisons: dict[str, tuple[MeasuredScenario, MeasuredComparison]] = {}
    for analysed in run.others:
        scenario = analysed.record
        for c in analysed.compared():
            a, b = c.numerator, c.denominator
            processes = VARIANTS[a.variant].processes, VARIANTS[b.variant].processes
            same = (a.workers, a.case) == (b.workers, b.case)
            if same and (a.config, b.config, *processes) == ("ft", "gil", False, True):
                where = ", ".join(
                    filter(None, (scenario.name, run_words.case_title(scenario, a.case)))
                )
                comparisons.setdefault(where, (scenario, c))  # the first of each case
    if len(comparisons) < 2:
        return None
    rows, cells = [], []
    for where, (scenario, c) in comparisons.items():
        ratio, low, high = c.advantage
        about, factor, words = (
            METRICS[c.metric],
            f"{verdict_words.figure(ratio)}x",
            verdict_words.short(c),
        )
        hover = f"{where}\n{run_words.title_with_why(scenario, c)}\n{factor}"
        is_shown = c.estimate.shown
        rows.append(
            Row(
                f"{where}: {about.noun}",
                ratio,
                low,
                high,
                hover,
                detail=f"{factor}: {words}",
                shown=is_shown,
            )
        )
        cells.append((where, about.title, factor, words))
    return Chart(
        "overview",
        "Threads without the GIL against processes with it",
        "Right of 1 the threads are better; lines are 95% confidence intervals. Filled: a "
        "difference is shown.",
        Rows([("", rows)], "advantage of threads (above 1: better)", ratios=True),
        Table(
            ("scenario", "quantity", "advantage of threads", "as measured"),
            tuple(cells),
            frozenset({2}),
        ),
    )
