"""Which charts a scenario gets, and what they show; ftbench.report.figures draws them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import plotly.graph_objects as go

from ftbench.plan.metrics import Metric
from ftbench.report import figures, series, tables, within_trials, words
from ftbench.report.chart import Chart
from ftbench.report.chart import name as _name
from ftbench.report.series import Measured
from ftbench.stats.statistics import NO_DIFFERENCE, TOO_FEW

# More contestants of one number of workers than this are named at their bars, not in a legend.
MOST_SERIES = 6
# More curves than this are drawn in a chart for each number of workers.
MOST_LINES = 8
# Metrics that are shown on request where they are not what the scenario is about.
BY_THE_WAY = frozenset({"time_to_first_batch", "pss_mib", "worker_setup", "operation_ns", "step_over_sum"})
# Charts of single cases that are shown without being asked for.
MOST_FACETS = 4


def charts(scenario: dict) -> list[Chart]:
    """All charts of a scenario: its own metric, the ratios, distributions, then whatever else was measured."""
    first, *others = (words.metric_of(name) for name in scenario["metrics"])
    return [
        *_of_a_metric(scenario, first),
        *_ratios(scenario, first, words.pictured(scenario)),
        *within_trials.charts(scenario),
        *(
            chart
            for metric in others
            for chart in _of_a_metric(scenario, metric, metric.noun if metric.name in BY_THE_WAY else "")
        ),
        *(
            chart
            for metric in others
            for chart in _ratios(scenario, metric, _same_pairs(scenario, metric), metric.noun)
        ),
    ]


def _same_pairs(scenario: dict, metric: Metric) -> list[dict]:
    """The comparisons of another metric between those whose ratios are pictured."""
    pairs = {(c["numerator"], c["denominator"]) for c in words.pictured(scenario)}
    return [c for c in words.comparisons(scenario, metric.name) if (c["numerator"], c["denominator"]) in pairs]


def _hover(metric: Metric, m: Measured, case: str = "") -> str:
    deviation = "" if m.deviation is None else f"\nmean {metric.write(m.mean)} ± {metric.write(m.deviation)}"
    rounds = ", ".join(metric.write(v) for v in m.values[:8]) + (", ..." if len(m.values) > 8 else "")
    return (
        f"{m.title}{f', {case}' if case else ''}\nmedian {metric.write(m.median)} {metric.unit}"
        f"\n{metric.write(m.low)} to {metric.write(m.high)}{deviation}\nrounds: {rounds}"
    )


def _of_a_metric(scenario: dict, metric: Metric, folded: str = "") -> Iterator[Chart]:
    found = series.measured(scenario, metric.name)
    if not found:
        return
    best = f"{metric.best} is better"
    counts = sorted({m.workers for m in found})
    table = tables.measured(scenario, metric, found)
    name, title = _name(scenario["name"], metric.name), f"{metric.title}: {best}"
    alt = f"{metric.noun} in {metric.unit}: " + "; ".join(
        f"{m.title}{f' at {series.case_title(scenario, m.case)}' if m.case else ''} {metric.write(m.median)}"
        for m in found
    )
    if series.on_an_axis(scenario):
        lines = _by_case(scenario, metric, found, counts)
        axis = figures.Axis(*series.axis_of_cases(scenario))
        groups = [("", lines)]
        if len(lines) > MOST_LINES and len(counts) > 1:
            of = _workers_of(found)
            groups = [
                (words.workers(n), [line for line, w in zip(lines, of, strict=True) if w == n])
                for n in reversed(counts)
            ]
        wide = series.logarithmic([m.median for m in found])
        for number, (which, some) in enumerate(groups):
            yield Chart(
                f"{name}{f'-{number}' if number else ''}",
                f"{metric.title}{f' with {which}' if which else ''}: {best}",
                "Medians; lines from the lowest round to the highest." + (" Logarithmic scales." if wide else ""),
                "Curves of " + alt,
                figures.curves(some, axis, metric.unit, logarithmic=wide, ideal=_ideal(metric, axis, found)),
                table,
                folded or (which if number else ""),
            )
    elif len(counts) > 2 or 0 in counts:  # with and without workers is a curve, be it a short one
        axis = figures.Axis("workers", counts, [str(n) for n in counts], min(counts) > 0 and len(counts) > 3)
        cases = list(dict.fromkeys(m.case for m in found))
        if len(cases) > 1:
            most = [m for m in found if m.workers == counts[-1]]
            yield Chart(
                name,
                f"{metric.title} with {words.workers(counts[-1])}: {best}",
                "Bars: median; lines: from the lowest round to the highest.",
                "Bar chart of " + alt,
                _bars(scenario, metric, most),
                table,
                folded,
            )
        for number, case in enumerate(cases, len(cases) > 1):
            which = series.case_title(scenario, case)
            own = [m for m in found if m.case == case]
            yield Chart(
                f"{name}{f'-{number}' if number else ''}",
                f"{title}{f' ({which})' if which else ''}",
                "Mean over the rounds; lines: one standard deviation either way.",
                "Curves over the number of workers of " + alt,
                figures.curves(_by_workers(metric, own), axis, metric.unit, ideal=_ideal(metric, axis, own)),
                table,
                folded or ("more cases" if number >= MOST_FACETS else ""),
            )
    else:
        yield Chart(
            name,
            title,
            "Bars: median; lines: from the lowest round to the highest.",
            "Bar chart of " + alt,
            _bars(scenario, metric, found),
            table,
            folded,
        )


def _bars(scenario: dict, metric: Metric, found: Sequence[Measured]) -> go.Figure:
    counts = {m.workers for m in found}
    own_names = len({m.series for m in found}) > MOST_SERIES
    groups: dict[str, list[figures.Bar]] = {}
    for m in sorted(found, key=lambda m: m.workers) if not scenario["cases"] else found:
        case = series.case_title(scenario, m.case)
        workers = words.workers(m.workers)
        heading = ", ".join(part for part in (case, "" if own_names and len(counts) > 1 else workers) if part)
        label = m.title if own_names else words.label(m.config, m.variant)
        groups.setdefault(heading, []).append(
            figures.Bar(
                m.config, m.variant, label, m.median, m.low, m.high, metric.write(m.median), _hover(metric, m, case)
            )
        )
    ideal = {"workers": max(counts), "1": 1}.get(metric.ideal) if len(counts) == 1 or metric.ideal == "1" else None
    return figures.bars(list(groups.items()), metric.unit, own_names, ideal)


def _ideal(metric: Metric, axis: figures.Axis, found: Sequence[Measured]) -> list[tuple[float, float]]:
    """The line that nothing can be better than: as many times the best of one worker as there are workers."""
    if metric.ideal == "1":
        return [(x, 1) for x in axis.values]
    one = 1.0 if metric.ideal else max((m.mean for m in found if m.workers == 1), default=0.0)
    scales = axis.title == "workers" and metric.best == "higher" and metric.unit != "%"
    return [(n, n * one) for n in axis.values] if scales and one else []


def _curves_of(found: Sequence[Measured]) -> dict[tuple, list[Measured]]:
    """The contestants of each curve over cases, by configuration, variant and number of workers."""
    curves: dict[tuple, list[Measured]] = {}
    for m in found:
        curves.setdefault((m.config, m.variant, m.workers), []).append(m)
    return curves


def _workers_of(found: Sequence[Measured]) -> list[int]:
    return [workers for _, _, workers in _curves_of(found)]


def _by_case(scenario: dict, metric: Metric, found: Sequence[Measured], counts: list[int]) -> list[figures.Line]:
    place = series.places(scenario)
    lines = []
    for (config, variant, workers), own in _curves_of(found).items():
        own.sort(key=lambda m: place[m.case])
        number = f", x{workers}" if len(counts) > 1 else ""
        lines.append(
            figures.Line(
                config,
                variant,
                words.label(config, variant) + number,
                [place[m.case] for m in own],
                [m.median for m in own],
                [m.low for m in own],
                [m.high for m in own],
                [_hover(metric, m, series.case_title(scenario, m.case)) for m in own],
                counts.index(workers),
            )
        )
    return lines


def _by_workers(metric: Metric, found: Sequence[Measured]) -> list[figures.Line]:
    lines: dict[tuple[str, str], list[Measured]] = {}
    for m in found:
        lines.setdefault(m.series, []).append(m)
    return [
        figures.Line(
            config,
            variant,
            words.label(config, variant),
            [m.workers for m in own],
            [m.mean for m in own],
            [m.mean - (m.deviation or 0) for m in own],
            [m.mean + (m.deviation or 0) for m in own],
            [_hover(metric, m) for m in own],
        )
        for (config, variant), own in lines.items()
    ]


def _ratios(scenario: dict, metric: Metric, chosen: Sequence[dict], folded: str = "") -> Iterator[Chart]:
    if not chosen:
        return
    about = {c["key"]: c for c in scenario["contestants"]}
    name = _name(scenario["name"], metric.name, "ratios")
    question = (
        "Who is faster, and is it certain?"
        if metric.name == "throughput"
        else f"{metric.title}: who is better, and is it certain?"
    )
    caption = f"Ratios of {metric.noun} within rounds, with 95% confidence intervals."
    alt = f"Ratios of {metric.noun}: " + "; ".join(
        f"{words.title_with_case(scenario, c)} {words.short(scenario, c)}" for c in chosen
    )
    table = tables.ratios(scenario, words.comparisons(scenario, metric.name))
    groups: dict[str, list[figures.Row]] = {}
    for c in chosen:
        case = series.case_title(scenario, about[c["numerator"]]["case"])
        wanted = words.target(c)
        groups.setdefault(case, []).append(
            figures.Row(
                (words.title if _within_a_case(scenario, c) else words.title_with_case)(scenario, c),
                c["mean"],
                c["low"],
                c["high"],
                c["verdict"] not in (NO_DIFFERENCE, TOO_FEW),
                words.times(c["mean"]),
                f"{c['title']}\n{words.short(scenario, c)}" + (f"\ntarget {wanted}" if wanted else ""),
                c["target"]["value"] if wanted else None,
            )
        )
    yield Chart(
        name, question, caption, alt, figures.ratios(list(groups.items()), f"ratio of {metric.noun}"), table, folded
    )


def _within_a_case(scenario: dict, comparison: dict) -> bool:
    return len({words.contestant(scenario, comparison[side])["case"] for side in ("numerator", "denominator")}) == 1
