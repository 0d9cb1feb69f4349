"""Selection of the charts of a scenario, and their contents;
ftbench.report.draw draws the charts.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ftbench.document.model import MeasuredScenario
from ftbench.plan.candidates import SERIAL, VARIANTS
from ftbench.plan.metrics import METRICS, Metric
from ftbench.plan.unit import RUN
from ftbench.report import courses, run_words, style, tables, verdict_words
from ftbench.report.draw import MOST_FACETS, Chart, Curves, Line, Row, Rows
from ftbench.report.tables import Measured, Table
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftbench.stats.comparisons import MeasuredComparison

RANGES = "Geometric means of the rounds; lines: from the lowest round to the highest."
INTERVALS = "95% confidence intervals. Filled: a difference is shown."
# The most rounds whose values a tooltip lists.
MOST_VALUES = 8


def charts(scenario: AnalysedScenario) -> list[Chart]:
    """Return all charts of a scenario: main metric, ratios,
    curves that trials recorded, other metrics.
    """
    record = scenario.record
    first, *further = map(record.unit.metric, record.metrics)
    selected = [*_measured(record, first), *_ratios(scenario, first), *courses.charts(record)]
    for metric in further:
        selected += _measured(record, metric, metric.noun)
    return selected


def _measured(scenario: MeasuredScenario, metric: Metric, folded: str = "") -> Iterator[Chart]:
    """Yield a metric's charts: curves over cases or workers if possible,
    else bars. *folded*: see Chart.folded.
    """
    measured = tables.candidates(scenario, metric.name)
    if not measured:
        return
    most_shown = MOST_FACETS
    if _places(scenario):
        facets, most_shown = _over_cases(scenario, metric, measured), 1
    elif _is_curve(measured):
        facets = _over_workers(scenario, metric, measured)
    else:
        facets = [("", _bars(scenario, metric, measured))]
    table = tables.measured(scenario, metric)
    for number, (facet, picture) in enumerate(facets):
        subject = facet if len(facets) > 1 else ""
        yield Chart(
            name=run_words.slug(f"{scenario.name}-{metric.name}-{number or ''}"),
            title=f"{metric.title}{subject}: {metric.best} is better",
            caption=RANGES,
            picture=picture,
            table=table,
            folded=folded or (subject.strip(" ,") if number >= most_shown else ""),
        )


def _is_curve(measured: Sequence[Measured]) -> bool:
    """True if the numbers of workers make a curve. Two do if one of them is 0."""
    counts = {m.candidate.workers for m in measured}
    return len(counts) > 2 or 0 in counts


Facets = list[tuple[str, Curves | Rows]]
"""Pictures of one metric: pairs (end of the title, picture)."""


def _over_cases(scenario: MeasuredScenario, metric: Metric, measured: Sequence[Measured]) -> Facets:
    """Return curves over the cases for each number of workers, the most workers first."""
    groups = defaultdict(list)
    for m in measured:
        groups[m.candidate.workers].append(m)
    facets: Facets = []
    for number in sorted(groups, reverse=True):
        picture = _curves_over_cases(scenario, metric, groups[number])
        facets.append((f" with {run_words.workers(number)}", picture))
    return facets


def _over_workers(
    scenario: MeasuredScenario, metric: Metric, measured: Sequence[Measured]
) -> Facets:
    """Return curves over the number of workers for each case."""
    groups = defaultdict(list)
    for m in measured:
        groups[m.candidate.case].append(m)
    facets: Facets = []
    for case, of_case in groups.items():
        picture = _curves_over_workers(scenario, metric, of_case)
        facets.append((f", {run_words.case_title(scenario, case)}", picture))
    return facets


def _hover(scenario: MeasuredScenario, metric: Metric, measured: Measured) -> str:
    values = [metric.write(value) for value in measured.values[:MOST_VALUES]]
    if len(measured.values) > MOST_VALUES:
        values.append("...")
    lines = (
        run_words.full_title(scenario, measured.candidate),
        f"mean {metric.write(measured.typical)} {metric.unit}",
        f"{metric.write(measured.low)} to {metric.write(measured.high)}",
        f"rounds: {', '.join(values)}",
    )
    return "\n".join(lines)


def _bars(scenario: MeasuredScenario, metric: Metric, measured: Sequence[Measured]) -> Rows:
    groups = defaultdict(list)
    for m in measured:
        candidate = m.candidate
        row = Row(
            label=run_words.own_title(candidate),
            value=m.typical,
            low=m.low,
            high=m.high,
            hover=_hover(scenario, metric, m),
            config=candidate.config,
            variant=candidate.variant,
            text=metric.write(m.typical),
        )
        groups[run_words.case_title(scenario, candidate.case)].append(row)
    return Rows(list(groups.items()), metric.unit, ideal=_ideal_bar(metric, measured))


def _ideal_bar(metric: Metric, measured: Sequence[Measured]) -> float | None:
    """Return the length of an ideal bar; None if there is none for all of them."""
    if metric.ideal == "1":
        return 1
    counts = {m.candidate.workers for m in measured}
    if metric.ideal == "workers" and len(counts) == 1:
        return max(counts)
    return None


def _places(scenario: MeasuredScenario) -> dict[str, float]:
    """Return {case: x value in curves over the cases}; {} for a single case, or if x values are
    equal or missing.
    """
    places = {case.name: case.value for case in scenario.cases if case.value is not None}
    if len(scenario.cases) == len(set(places.values())) > 1:
        return places
    return {}


def _curves_over_cases(
    scenario: MeasuredScenario, metric: Metric, measured: Sequence[Measured]
) -> Curves:
    places = _places(scenario)
    marks = {}
    for name in sorted(places, key=places.__getitem__):
        marks[places[name]] = _mark(scenario, name)
    ends = [*(m.low for m in measured), *(m.high for m in measured)]
    return Curves(
        lines=_lines(scenario, metric, measured, places),
        over=scenario.case_axis or "case",
        unit=metric.unit,
        marks=marks,
        logarithmic_x=style.far_apart(marks),
        logarithmic=style.far_apart(ends),
        ideal=[(x, 1.0) for x in marks] if metric.ideal == "1" else [],
    )


def _mark(scenario: MeasuredScenario, case: str) -> str:
    """Return the label of a case on the axis: "4 MiB", or the value of a command's parameter."""
    if scenario.unit is RUN:
        return run_words.case_title(scenario, case).rpartition("=")[2]
    return case.replace("-", " ")


def _curves_over_workers(
    scenario: MeasuredScenario, metric: Metric, measured: Sequence[Measured]
) -> Curves:
    counts = sorted({m.candidate.workers for m in measured})
    return Curves(
        lines=_lines(scenario, metric, measured, {}),
        over="workers",
        unit=metric.unit,
        marks={number: str(number) for number in counts},
        logarithmic_x=min(counts) > 0 and len(counts) > 3,
        ideal=_ideal_curve(metric, counts, measured),
    )


def _lines(
    scenario: MeasuredScenario,
    metric: Metric,
    measured: Sequence[Measured],
    places: Mapping[str, float],
) -> list[Line]:
    """Return a curve for each configuration and variant, over *places* of cases, or over the
    number of workers if there are none.
    """
    points: dict[tuple[str, str], list[tuple]] = defaultdict(list)
    for m in measured:
        candidate = m.candidate
        x = places.get(candidate.case, candidate.workers)
        point = x, m.typical, m.low, m.high, _hover(scenario, metric, m)
        points[candidate.config, candidate.variant].append(point)
    if not places:
        points = _from_zero(points)
    lines = []
    for (config, variant), of_line in points.items():
        label = run_words.label(config, variant)
        columns = zip(*sorted(of_line), strict=True)
        lines.append(Line(config, variant, label, *columns))
    return lines


def _from_zero(
    points: Mapping[tuple[str, str], list[tuple]],
) -> dict[tuple[str, str], list[tuple]]:
    """Return the points of curves over the number of workers, by (configuration, variant).

    Each curve begins with its configuration's point without workers, if there is one. That point is
    a curve by itself only where its configuration has no other.
    """
    with_workers = {line: of_line for line, of_line in points.items() if line[1] != SERIAL}
    joined = {
        (config, variant): [*points.get((config, SERIAL), ()), *of_line]
        for (config, variant), of_line in with_workers.items()
    }
    configs = {config for config, _ in with_workers}
    alone = {line: of_line for line, of_line in points.items() if line[0] not in configs}
    return joined | alone


def _ideal_curve(
    metric: Metric, counts: Sequence[int], measured: Sequence[Measured]
) -> list[tuple[float, float]]:
    """Return the ideal line: 1, or the best value of one worker times the number of workers."""
    if metric.ideal == "1":
        return [(number, 1.0) for number in counts]
    if metric.best != "higher" or metric.unit == "%":
        return []
    single = 1.0
    if not metric.ideal:
        single = max((m.typical for m in measured if m.candidate.workers == 1), default=0.0)
    return [(number, number * single) for number in counts if single]


def _ratios(analysed: AnalysedScenario, metric: Metric) -> Iterator[Chart]:
    """Yield a chart of the scenario's main ratios (if any),
    with a table of all ratios in *metric*.
    """
    scenario = analysed.record
    compared = analysed.compared(metric.name)
    factors = tables.in_factors(compared)
    groups = defaultdict(list)
    for comparison in analysed.principal():
        case = run_words.case_title(scenario, comparison.numerator.case)
        groups[case].append(_ratio(scenario, comparison, factors))
    if not groups:
        return
    question = f"{metric.title}: who is better"
    if metric.name == "throughput":
        question = "Who is faster"
    yield Chart(
        name=run_words.slug(f"{scenario.name}-{metric.name}-ratios"),
        title=f"{question}, and is it certain?",
        caption=f"Ratios of {metric.noun} within rounds, with {INTERVALS}",
        picture=Rows(list(groups.items()), f"ratio of {metric.noun}", ratios=True),
        table=tables.ratios(scenario, compared),
    )


def _ratio(scenario: MeasuredScenario, comparison: MeasuredComparison, factors: bool) -> Row:
    a, b, estimate = comparison.numerator, comparison.denominator, comparison.estimate
    factor = verdict_words.factor(estimate.ratio)
    title = run_words.title_with_why(scenario, comparison)
    return Row(
        label=run_words.title(scenario, a, b, with_case=a.case != b.case),
        value=estimate.ratio,
        low=estimate.low,
        high=estimate.high,
        hover=f"{title}\n{factor} ({verdict_words.interval(comparison)})",
        detail=f"{factor}: {verdict_words.short(comparison, factors)}",
        shown=estimate.shown,
    )


def overview(run: Analysis) -> Chart | None:
    """Return a chart of threads without the GIL against processes with it; None if there are fewer
    than two ratios.
    """
    compared: dict[str, tuple[MeasuredScenario, MeasuredComparison]] = {}
    for analysed in run.others:
        scenario = analysed.record
        for comparison in filter(_threads_against_processes, analysed.compared()):
            case = run_words.case_title(scenario, comparison.numerator.case)
            # the first of each case
            compared.setdefault(run_words.join(scenario.name, case), (scenario, comparison))
    if len(compared) < 2:
        return None
    factors = tables.in_factors(comparison for _, comparison in compared.values())
    rows, cells = [], []
    for subject, (scenario, comparison) in compared.items():
        words = verdict_words.short(comparison, factors)
        rows.append(_advantage(scenario, comparison, subject, words))
        metric, factor = METRICS[comparison.metric], _advantage_factor(comparison)
        cells.append((subject, metric.title, factor, words))
    head = "scenario", "quantity", "advantage of threads", "as measured"
    unit = "advantage of threads (above 1: better)"
    return Chart(
        name="overview",
        title="Threads without the GIL against processes with it",
        caption=f"Right of 1 the threads are better; lines are {INTERVALS}",
        picture=Rows([("", rows)], unit, ratios=True),
        table=Table(head, tuple(cells), frozenset({2})),
    )


def _threads_against_processes(comparison: MeasuredComparison) -> bool:
    """True if threads without the GIL are compared with as many processes with it."""
    a, b = comparison.numerator, comparison.denominator
    if (a.config, b.config) != ("ft", "gil") or (a.workers, a.case) != (b.workers, b.case):
        return False
    return VARIANTS[b.variant].processes and not VARIANTS[a.variant].processes


def _advantage_factor(comparison: MeasuredComparison) -> str:
    ratio, _, _ = comparison.advantage
    return verdict_words.factor(ratio)


def _advantage(
    scenario: MeasuredScenario, comparison: MeasuredComparison, subject: str, words: str
) -> Row:
    """Return the row of a comparison; *words*: its verdict."""
    ratio, low, high = comparison.advantage
    factor = _advantage_factor(comparison)
    title = run_words.title_with_why(scenario, comparison)
    return Row(
        label=f"{subject}: {METRICS[comparison.metric].noun}",
        value=ratio,
        low=low,
        high=high,
        hover=f"{subject}\n{title}\n{factor}",
        detail=f"{factor}: {words}",
        shown=comparison.estimate.shown,
    )
