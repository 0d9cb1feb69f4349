"""The choice of a scenario's charts and their contents; ftbench.report.draw draws them.

In addition to its metrics, a trial can keep lists of values, each list under a name ("step", "loss"). The chart of
such a list depends on its form:

- a curve, if its values depend on a quantity such as time;
- boxes (a distribution), if it has many values in no order;
- bars, like a metric, if it has only a few.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import numpy

from ftbench.document.model import Distribution, Scenario
from ftbench.plan.candidates import VARIANTS, Candidate
from ftbench.plan.metrics import METRICS, Metric
from ftbench.report import run_words, style, tables, verdict_words
from ftbench.report.draw import MOST_MARKS, Axis, Bars, Boxes, Chart, Curves, Line, Ratios, Row, Rows
from ftbench.report.tables import Measured, Table
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftbench.stats.comparisons import Comparison

# More candidates of one number of workers than this are named at their bars, not in a legend.
MOST_SERIES = 6
# More curves than this are drawn in a chart for each number of workers.
MOST_LINES = 8
# Charts of single cases that are shown without being asked for.
MOST_FACETS = 4
# Of more distributions, those of the most workers have the picture; the table has all.
MOST_BOXES = 30
# With fewer values a trial, a 99th percentile is one value, and a box hides how few they are.
FEWEST = 30
# Metrics that are shown on request where they are not what the scenario is about.
BY_THE_WAY = frozenset({"time_to_first_batch", "pss_mib", "worker_setup", "operation_ns", "step_over_sum"})
# Units that a mark on an axis has room for.
SHORT_UNITS = ("bytes", "B", "seconds", "s")
# Titles of kept values, by their name; others have the name itself.
TITLES = {
    "step": "Time of a step",
    "step-alone": "Time of a step with no loader at work",
    "taking": "Time to take a batch",
    "rate": "Batches that the loop took",
    "rate-alone": "Batches of the loader alone",
    "operation": "Time of an operation, all workers at it",
    "operation-alone": "Time of an operation, one worker at it",
    "loss": "Loss of the training",
    "epoch": "Time of each epoch",
    "pss_mib": "Memory (PSS)",
    "uss_mib": "Memory of their own (USS)",
    "samples-of-an-epoch": "Samples that an epoch has",
    "samples-there": "Samples in the cache",
}
RANGES = "Bars: median; lines: from the lowest round to the highest."


def charts(scenario: AnalysedScenario) -> list[Chart]:
    """Return all charts of a scenario: its own metric, the ratios, kept values, then its other metrics."""
    first, *others = (METRICS[name] for name in scenario.metrics)
    found = [*_measured(scenario, first), *_ratios(scenario, first), *_kept(scenario)]
    for metric in others:
        found += _measured(scenario, metric, metric.noun if metric.name in BY_THE_WAY else "")
    return found


def _title(name: str) -> str:
    """Return the title for a list of values that trials kept under the name *name*."""
    known = METRICS[name].title if name in METRICS else name.replace("_", " ")
    return TITLES.get(name) or run_words.capital(known.replace("-", " "))


def _name(*parts: object) -> str:
    return run_words.slug("-".join(str(part) for part in parts if part))


def _measured(scenario: Scenario, metric: Metric, folded: str = "") -> Iterator[Chart]:
    """Yield the charts of a metric: curves if cases or numbers of workers make an axis, bars if not."""
    found = tables.candidates(scenario, metric.name)
    if not found:
        return
    table = tables.measured(scenario, metric)
    alt = f" {metric.noun} in {metric.unit}: " + "; ".join(
        f"{run_words.full_title(scenario, m.candidate)} {metric.write(m.median)}" for m in found
    )

    def chart(number: int, which: str, caption: str, kind: str, picture: Rows | Curves, own: str = "") -> Chart:
        title = f"{metric.title}{which}: {metric.best} is better"
        return Chart(
            _name(scenario.name, metric.name, number), title, caption, kind + alt, picture, table, folded or own
        )

    counts = sorted({m.candidate.workers for m in found})
    cases = list(dict.fromkeys(m.candidate.case for m in found))
    if _on_an_axis(scenario):
        some = counts if len(_by(found, lambda m: (*m.series, m.candidate.workers))) > MOST_LINES else [None]
        caption = "Medians; lines from the lowest round to the highest."
        for number, count in enumerate(reversed(some)):
            of = [m for m in found if count in (None, m.candidate.workers)]
            which = run_words.workers(count) if count is not None and len(some) > 1 else ""
            picture = _over_cases(scenario, metric, of, counts)
            scales = " Logarithmic scales." if picture.logarithmic else ""
            yield chart(
                number, which and f" with {which}", caption + scales, "Curves of", picture, which if number else ""
            )
    elif len(counts) <= 2 and 0 not in counts:
        yield chart(0, "", RANGES, "Bars of", _bars(scenario, metric, found))
    else:  # with and without workers is a curve, be it a short one
        if len(cases) > 1:
            most = [m for m in found if m.candidate.workers == counts[-1]]
            yield chart(0, f" with {run_words.workers(counts[-1])}", RANGES, "Bars of", _bars(scenario, metric, most))
        caption = "Mean over the rounds; lines: one standard deviation either way."
        for number, case in enumerate(cases, len(cases) > 1):
            which = run_words.case_title(scenario, case)
            picture = _over_workers(scenario, metric, [m for m in found if m.candidate.case == case], counts)
            own = "more cases" if number >= MOST_FACETS else ""
            yield chart(number, which and f", {which}", caption, "Curves over the number of workers of", picture, own)


def _by[T](found: Sequence[Measured], key: Callable[[Measured], T]) -> dict[T, list[Measured]]:
    groups: dict[T, list[Measured]] = {}
    for m in found:
        groups.setdefault(key(m), []).append(m)
    return groups


def _hover(scenario: Scenario, metric: Metric, m: Measured) -> str:
    deviation = f"\nmean {metric.write(m.mean)} ± {metric.write(m.deviation)}" if len(m.values) > 1 else ""
    rounds = ", ".join(metric.write(value) for value in m.values[:8]) + (", ..." if len(m.values) > 8 else "")
    return (
        f"{run_words.full_title(scenario, m.candidate)}\nmedian {metric.write(m.median)} {metric.unit}"
        f"\n{metric.write(m.low)} to {metric.write(m.high)}{deviation}\nrounds: {rounds}"
    )


def _bars(scenario: Scenario, metric: Metric, found: Sequence[Measured]) -> Bars:
    counts = {m.candidate.workers for m in found}
    named = len({m.series for m in found}) > MOST_SERIES
    groups: dict[str, list[Row]] = {}
    for m in found if scenario.cases else sorted(found, key=lambda m: m.candidate.workers):
        workers = "" if named and len(counts) > 1 else run_words.workers(m.candidate.workers)
        heading = ", ".join(filter(None, (run_words.case_title(scenario, m.candidate.case), workers)))
        label = run_words.own_title(m.candidate) if named else ""
        hover = _hover(scenario, metric, m)
        row = Row(label, m.median, m.low, m.high, hover, *m.series, text=metric.write(m.median))
        groups.setdefault(heading, []).append(row)
    ideal = {"workers": max(counts), "1": 1}.get(metric.ideal) if len(counts) == 1 or metric.ideal == "1" else None
    return Bars(list(groups.items()), metric.unit, ideal)


def _on_an_axis(scenario: Scenario) -> bool:
    """Return True if the cases are values of a quantity, so that a curve can join them."""
    values = _places(scenario).values()
    return len(scenario.cases) == len(set(values)) > 1


def _places(scenario: Scenario) -> dict[str, float]:
    """Return the places of the cases on their axis, by name."""
    return {case.name: case.value for case in scenario.cases if case.value is not None}


def _over_cases(scenario: Scenario, metric: Metric, found: Sequence[Measured], counts: Sequence[int]) -> Curves:
    places = _places(scenario)
    unit, title, values = scenario.case_unit, scenario.case_axis or "case", sorted(places.values())
    wide = min(values) > 0 and (unit in SHORT_UNITS or style.far_apart(values))
    if unit and unit not in SHORT_UNITS:  # a mark has no room for it
        title, unit = f"{title}, {unit}", ""
    lines = []
    for (config, variant, workers), own in _by(found, lambda m: (*m.series, m.candidate.workers)).items():
        own.sort(key=lambda m: places[m.candidate.case])
        name = run_words.label(config, variant) + (f", x{workers}" if len(counts) > 1 else "")
        points = [(places[m.candidate.case], m.median, m.low, m.high, _hover(scenario, metric, m)) for m in own]
        x, y, low, high, hover = zip(*points, strict=True)
        lines.append(Line(config, variant, name, x, y, low, high, hover, counts.index(workers)))
    ideal = [(x, 1.0) for x in values] if metric.ideal == "1" else []
    axis = Axis(title, values, [style.quantity(value, unit) for value in values], wide)
    far = style.far_apart([end for m in found for end in (m.low, m.high)])
    return Curves(lines, axis, metric.unit, far, ideal=ideal)


def _over_workers(scenario: Scenario, metric: Metric, found: Sequence[Measured], counts: Sequence[int]) -> Curves:
    lines = []
    for series, own in _by(found, lambda m: m.series).items():
        points = [
            (m.candidate.workers, m.mean, m.mean - m.deviation, m.mean + m.deviation, _hover(scenario, metric, m))
            for m in own
        ]
        x, y, low, high, hover = zip(*points, strict=True)
        lines.append(Line(*series, run_words.label(*series), x, y, low, high, hover))
    # The ideal: the best of one worker times the number of workers.
    one = 1.0 if metric.ideal else max((m.mean for m in found if m.candidate.workers == 1), default=0.0)
    ideal = [(n, one if metric.ideal == "1" else n * one) for n in counts]
    if metric.ideal != "1" and (metric.best != "higher" or metric.unit == "%" or not one):
        ideal = []
    axis = Axis("workers", counts, [str(n) for n in counts], min(counts) > 0 and len(counts) > 3)
    return Curves(lines, axis, metric.unit, ideal=ideal)


def _ratios(scenario: AnalysedScenario, metric: Metric) -> Iterator[Chart]:
    """Yield the chart of the ratios that a picture has room for."""
    every, chosen = scenario.compared(metric.name), tables.pictured(scenario)
    if not chosen:
        return
    groups: dict[str, list[Row]] = {}
    for c in chosen:
        title = run_words.title(scenario, c.numerator, c.denominator, with_case=c.numerator.case != c.denominator.case)
        hover = f"{run_words.title_with_why(scenario, c)}\n{verdict_words.times(c.ratio)} ({verdict_words.interval(c)})"
        said, target = verdict_words.short(c), None
        if c.target:
            wanted = verdict_words.target(c)
            hover, said, target = f"{hover}\ntarget {wanted}", f"{said}; target {wanted}", c.target.value
        row = Row(title, c.ratio, c.low, c.high, hover, detail=said, shown=c.shown, target=target)
        groups.setdefault(run_words.case_title(scenario, c.numerator.case), []).append(row)
    about = "Who is faster" if metric.name == "throughput" else f"{metric.title}: who is better"
    yield Chart(
        _name(scenario.name, metric.name, "ratios"),
        f"{about}, and is it certain?",
        f"Ratios of {metric.noun} within rounds, with 95% confidence intervals.",
        f"Ratios of {metric.noun}: "
        + "; ".join(
            f"{run_words.title(scenario, c.numerator, c.denominator, with_case=True)} {verdict_words.short(c)}"
            for c in chosen
        ),
        Ratios(list(groups.items()), f"ratio of {metric.noun}"),
        tables.ratios(scenario, every),
    )


@dataclass(frozen=True)
class Kept:
    """Values that a candidate's trials kept under one name, by round."""

    candidate: Candidate
    rounds: tuple[Distribution, ...]

    @property
    def pooled(self) -> list[float]:
        """The values of all rounds, in order of size."""
        return sorted(value for kept in self.rounds for value in kept.values)

    def curve(self) -> tuple[Sequence[float], list[float], list[float], list[float]]:
        """Return the places, and the median, lowest and highest round at each, as far as all rounds have one."""
        at_each = list(zip(*(kept.values for kept in self.rounds), strict=False))
        over = self.rounds[0].over
        x = over.values[: len(at_each)] if over else []
        return x, [median(of) for of in at_each], [min(of) for of in at_each], [max(of) for of in at_each]


def kept(scenario: Scenario) -> dict[tuple[str, bool], list[Kept]]:
    """Return what trials kept, by (name, True for a curve), for each candidate in the order of the charts."""
    found: dict[tuple[str, bool], dict[str, list[Distribution]]] = {}
    for one in scenario.rounds:
        for trial in one.trials:
            for name, values in trial.distributions.items():
                of_name = found.setdefault((name, values.over is not None), {})
                of_name.setdefault(trial.candidate, []).append(values)
    order = [m.candidate for m in tables.candidates(scenario, scenario.metrics[0])]
    return {what: [Kept(c, tuple(of[c.key])) for c in order if c.key in of] for what, of in found.items()}


def _kept(scenario: AnalysedScenario) -> list[Chart]:
    """Return the charts of all values that the scenario's trials kept, curves first."""
    every = [(name, curves, entries) for (name, curves), entries in kept(scenario).items() if entries]
    found = [c for name, curves, entries in every if curves for c in _courses(scenario, name, entries)]
    for name, curves, entries in every:
        many = max(len(each.pooled) for each in entries) >= FEWEST * len(scenario.rounds)
        if not curves and (many or name not in METRICS):
            # One of what the scenario is about is shown, the others on request.
            about = many and entries[0].rounds[0].unit == scenario.metric.unit
            first = about and all(chart.folded for chart in found)
            found.append(_pooled(scenario, name, entries, many, "" if first else _title(name)))
    return found


def _courses(scenario: Scenario, name: str, entries: Sequence[Kept]) -> Iterator[Chart]:
    """Yield curves over the course of a trial, a chart for each case; one curve if all are the same."""
    first = entries[0].rounds[0]
    unit, over = first.unit, first.over.title if first.over else ""
    label = _title(name)
    titles = [run_words.full_title(scenario, each.candidate) for each in entries]
    curves = [each.curve() for each in entries]
    table = Table(
        ("candidate", f"first {over}", f"{unit} there", "at the end", "largest of any round"),
        tuple(
            (title, f"{x[0]:,g}", f"{middle[0]:.4g}", f"{middle[-1]:.4g}", f"{max(high):.4g}")
            for title, (x, middle, _, high) in zip(titles, curves, strict=True)
        ),
        frozenset(range(1, 5)),
    )
    alt = f"{label} in {unit} over {over}: " + "; ".join(f"{row[0]} from {row[2]} to {row[3]}" for row in table.rows)

    def chart(number: int, title: str, caption: str, lines: Sequence[Line], folded: str = "") -> Chart:
        most = max(value for _, _, _, high in curves for value in high)
        picture = Curves(lines, Axis(over), unit, most=most)
        return Chart(_name(scenario.name, name, "curve", number), title, caption, alt, picture, table, folded)

    def line(title: str, config: str, variant: str, curve: tuple, name: str) -> Line:
        x, middle, low, high = curve
        hover = [f"{title}\n{over} {at:,g}\n{y:.4g} {unit}" for at, y in zip(x, middle, strict=True)]
        return Line(config, variant, name, x, middle, low, high, hover)

    if len(entries) > 1 and all(curve == curves[0] for curve in curves) and curves[0][2] == curves[0][3]:
        title = f"all {len(entries)} candidates"
        caption = "In every round of every candidate the same values, to the last digit kept."
        yield chart(0, f"{label}: the same for all", caption, [line(title, "", "loader-thread", curves[0], title)])
        return
    several = len({each.candidate.workers for each in entries}) > 1
    how = "shaded" if len(curves[0][0]) > MOST_MARKS else "lines"
    caption = f"By {over}: medians of the rounds; {how}: from the lowest round to the highest."
    for number, case in enumerate(dict.fromkeys(each.candidate.case for each in entries)):
        own = [
            (title, each.candidate, curve)
            for title, each, curve in zip(titles, entries, curves, strict=True)
            if each.candidate.case == case
        ]
        most = max(c.workers for _, c, _ in own)
        lines = []
        for title, c, curve in own:
            # With cases, those of the most workers have the picture; the table has all.
            if not case or c.workers == most:
                count = f", x{c.workers}" if several and not case and c.workers else ""
                lines.append(line(title, c.config, c.variant, curve, run_words.label(c.config, c.variant) + count))
        which = [run_words.case_title(scenario, case), run_words.workers(most) if most else ""] if case else []
        heading = ": ".join(filter(None, (label, ", ".join(filter(None, which)))))
        yield chart(number, heading, caption, lines, "" if number < MOST_FACETS else f"more of {label}")


def _pooled(scenario: Scenario, name: str, entries: Sequence[Kept], many: bool, folded: str) -> Chart:
    """Return the chart of all rounds' values together: median and range, as boxes if they are many."""
    unit, title = entries[0].rounds[0].unit, _title(name)
    most = max(each.candidate.workers for each in entries)
    groups: dict[str, list[Row]] = {}
    cells, said = [], []
    for each in entries:
        c, values, full = each.candidate, each.pooled, run_words.full_title(scenario, each.candidate)
        ends = (0.01, 0.99) if many else (0, 1)
        # The smallest value that at least such a share of all do not exceed: always one that was measured.
        found = numpy.quantile(values, (ends[0], 0.25, 0.5, 0.75, ends[1]), method="inverted_cdf")
        low, first, middle, third, high = map(float, found)
        reach = f"{low:.4g} to {high:.4g}{' (1% to 99%)' if many else ''}"
        said.append(f"{full} median {middle:.4g}, {reach}")
        cells.append((full, [kept.values for kept in each.rounds]))
        if len(entries) <= MOST_BOXES or c.workers == most:
            text = f"{middle:.3g} · {high:.3g}" if many else f"{middle:.4g}"
            hover = f"{full}\nmedian {middle:.4g} {unit}\n{reach}"
            who = run_words.own_title(c), middle, low, high, hover, c.config, c.variant
            row = Row(*who, text=text, quartiles=(first, third))
            groups.setdefault(run_words.case_title(scenario, c.case), []).append(row)
    caption = "Median; lines: from the lowest value to the highest."
    if many:
        caption = (
            "Boxes: the middle half, with the median; lines: from 1% to 99%; figures next to them: median · "
            "99th percentile. The table has each round's own percentiles."
        )
    return Chart(
        _name(scenario.name, name),
        f"{title}: all of them, not only the median" if many else title,
        f"All rounds together. {caption}",
        f"{title} in {unit}: " + "; ".join(said),
        (Boxes if many else Bars)(list(groups.items()), unit),
        tables.pooled(unit, cells),
        folded,
    )


def _meetings(scenario: AnalysedScenario) -> Iterator[tuple[str, Comparison]]:
    """Yield (where, comparison) of threads without the GIL and processes with it: the first of each case."""
    found: dict[str, Comparison] = {}
    for c in scenario.compared():
        a, b = c.numerator, c.denominator
        if VARIANTS[b.variant].processes and (a.config, b.config) == ("ft", "gil") and a.workers == b.workers:
            if a.case == b.case and not VARIANTS[a.variant].processes:
                found.setdefault(run_words.case_title(scenario, a.case), c)
    for case, c in found.items():
        yield f"{scenario.name}, {case}" if case else scenario.name, c


def overview(run: Analysis) -> Chart | None:
    """Return the chart of threads without the GIL against processes with it; None for less than two comparisons."""
    found = [(scenario, *each) for scenario in run.others for each in _meetings(scenario)]
    if len(found) < 2:
        return None
    rows, cells = [], []
    for scenario, where, c in found:
        ratio, low, high = c.advantage
        about, factor, said = METRICS[c.metric], verdict_words.times(ratio), verdict_words.short(c)
        hover = f"{where}\n{run_words.title_with_why(scenario, c)}\n{factor}"
        rows.append(Row(f"{where}: {about.noun}", ratio, low, high, hover, detail=said, shown=c.shown))
        cells.append((where, about.title, factor, said))
    return Chart(
        "overview",
        "Threads without the GIL against processes with it",
        "Right of 1 the threads are better; lines are 95% confidence intervals. Filled: a difference is shown.",
        "Threads without the GIL against processes with it, above 1 where the threads are better: "
        + "; ".join(f"{where} {factor}" for where, _, factor, _ in cells),
        Ratios([("", rows)], "advantage of threads (above 1: better)"),
        Table(("scenario", "quantity", "advantage of threads", "as measured"), tuple(cells), frozenset({2})),
    )
