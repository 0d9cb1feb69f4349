"""Charts of what trials kept beside their metrics: distributions, such as the times of single steps, and curves.

What is kept under one name is drawn as what it is: values that follow something are curves over it, many
values without an order are distributions, and a few are a measurement like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ftbench.plan.metrics import METRICS
from ftbench.report import figures, series, spreads, tables, words
from ftbench.report.chart import Chart
from ftbench.report.chart import name as chart_name
from ftbench.stats.statistics import median

# With fewer values a trial, a 99th percentile is one value, and a box hides how few they are.
FEWEST = 30
# What values are, by their name; without an entry here the name itself has to do.
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
}
# Charts of single cases that are shown without being asked for.
MOST_FACETS = 4
# Of more distributions, those of the most workers have the picture; the table has all.
MOST_ROWS = 30


@dataclass(frozen=True)
class Curve:
    """What a value was over the course of a contestant's trials: of the rounds the median, lowest and highest."""

    unit: str
    over: str
    """What it goes over: "samples loaded"."""
    x: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def _kept(scenario: dict, curves: bool) -> dict[str, dict[str, list[dict]]]:
    """name -> {contestant's key: what its trials kept under that name}: curves, or all else."""
    found: dict[str, dict[str, list[dict]]] = {}
    for one in scenario["rounds"]:
        for trial in one["trials"]:
            for name, kept in trial["distributions"].items():
                if ("over" in kept) == curves:
                    found.setdefault(name, {}).setdefault(trial["contestant"], []).append(kept)
    return found


def _curve(rounds: Sequence[dict]) -> Curve:
    """As far as all rounds have it."""
    shortest = min(rounds, key=lambda kept: len(kept["values"]))
    at_each = list(zip(*(kept["values"] for kept in rounds), strict=False))
    return Curve(
        shortest["unit"],
        shortest["over"]["title"],
        tuple(shortest["over"]["values"]),
        tuple(median(of) for of in at_each),
        tuple(min(of) for of in at_each),
        tuple(max(of) for of in at_each),
    )


def curves(scenario: dict) -> dict[str, dict[str, Curve]]:
    """name -> {contestant's key: its curve}."""
    found = _kept(scenario, curves=True)
    return {name: {key: _curve(rounds) for key, rounds in of.items()} for name, of in found.items()}


def pooled(scenario: dict) -> dict[str, tuple[str, dict[str, list[float]]]]:
    """name -> (unit, {contestant's key: its values of all rounds, in order of size}); curves are no distributions."""
    return {
        name: (
            next(iter(of.values()))[0]["unit"],
            {key: sorted(value for kept in rounds for value in kept["values"]) for key, rounds in of.items()},
        )
        for name, of in _kept(scenario, curves=False).items()
    }


def charts(scenario: dict) -> list[Chart]:
    """The charts of everything that the scenario's trials kept, the most telling first."""
    found: list[Chart] = []
    for name, of_name in curves(scenario).items():
        found += _curves(scenario, name, of_name)
    shown = bool(found)
    for name, (unit, by_key) in pooled(scenario).items():
        entries = _in_order(scenario, by_key)
        if not entries:
            continue
        if max(len(values) for _, values in entries) < FEWEST * len(scenario["rounds"]):
            if name not in METRICS:
                found.append(_few(scenario, name, unit, entries))
        else:
            # One of what the scenario is about is shown, the others on request.
            about = not shown and unit == words.metric(scenario).unit
            found.append(_distribution(scenario, name, unit, entries, "" if about else title(name)))
            shown = shown or about
    return found


def title(name: str) -> str:
    """What values of this name are, for a heading."""
    if name in TITLES:
        return TITLES[name]
    return METRICS[name].title if name in METRICS else words.capital(name.replace("_", " ").replace("-", " "))


def _in_order[T](scenario: dict, by_key: dict[str, T]) -> list[tuple[dict, T]]:
    """(contestant, what it has), in the order of the charts of metrics."""
    about = {c["key"]: c for c in scenario["contestants"]}
    order = [m.key for m in series.measured(scenario, scenario["metrics"][0])]
    return [(about[key], by_key[key]) for key in order if key in by_key]


def _short(c: dict) -> str:
    """A contestant's title without its case."""
    return c["title"].replace(f" ({c['case']})", "")


def _full(scenario: dict, c: dict) -> str:
    case = series.case_title(scenario, c["case"])
    return f"{_short(c)}, {case}" if case else _short(c)


def _curves(scenario: dict, name: str, of_name: dict[str, Curve]) -> Iterator[Chart]:
    """A chart for each case; one curve if all are the same."""
    entries = _in_order(scenario, of_name)
    if not entries:
        return
    about, label = entries[0][1], title(name)
    axis = figures.scale([x for _, curve in entries for x in curve.x], about.over)
    rows = [
        (_full(scenario, c), curve.x[0], curve.middle[0], curve.middle[-1], max(curve.high)) for c, curve in entries
    ]
    table = tables.curves(about.unit, about.over, rows)
    alt = f"{label} in {about.unit} over {about.over}: " + "; ".join(
        f"{who} from {first:.4g} to {last:.4g}" for who, _, first, last, _ in rows
    )
    if (
        len(entries) > 1
        and about.low == about.high
        and len({(curve.x, curve.low, curve.high) for _, curve in entries}) == 1
    ):
        line = figures.Line(
            "",
            "",
            f"all {len(entries)} contestants",
            about.x,
            about.middle,
            about.low,
            about.high,
            [f"{about.over} {x:g}\n{y:.4g} {about.unit}" for x, y in zip(about.x, about.middle, strict=True)],
        )
        yield Chart(
            chart_name(scenario["name"], name, "curve"),
            f"{label}: the same for all",
            f"In every round of every contestant the same values, to the last digit kept: "
            f"{len(entries)} contestants, {words.rounds(scenario)}, one curve.",
            alt,
            figures.curves([line], axis, about.unit),
            table,
        )
        return
    counts = sorted({c["workers"] for c, _ in entries})
    how = "shaded" if len(about.x) > figures.MOST_MARKS else "lines"
    highest = max(value for _, curve in entries for value in curve.high)
    for number, case in enumerate(dict.fromkeys(c["case"] for c, _ in entries)):
        own = [(c, curve) for c, curve in entries if c["case"] == case]
        most = max(c["workers"] for c, _ in own)
        # With cases, those of the most workers have the picture; the table has all.
        group = [(c, curve) for c, curve in own if not case or c["workers"] == most]
        which = ", ".join(
            part for part in (series.case_title(scenario, case), words.workers(most) if most else "") if case and part
        )
        lines = [
            figures.Line(
                c["config"],
                c["variant"],
                words.label(c["config"], c["variant"]) + ("" if case else _times(c, counts)),
                curve.x,
                curve.middle,
                curve.low,
                curve.high,
                [
                    f"{_full(scenario, c)}\n{curve.over} {x:,g}\n{y:.4g} {curve.unit}"
                    for x, y in zip(curve.x, curve.middle, strict=True)
                ],
            )
            for c, curve in group
        ]
        yield Chart(
            chart_name(scenario["name"], name, "curve", str(number) if number else ""),
            f"{label}{f': {which}' if which else ''}",
            f"Over the course of a trial, by {about.over}: medians of the rounds; {how}: from the lowest "
            "round to the highest.",
            alt,
            figures.curves(lines, axis, about.unit, most=highest),
            table,
            "" if number < MOST_FACETS else f"more of {label[0].lower()}{label[1:]}",
        )


def _times(c: dict, counts: Sequence[int]) -> str:
    return f", x{c['workers']}" if len(counts) > 1 and c["workers"] else ""


def _few(scenario: dict, name: str, unit: str, entries: Sequence[tuple[dict, list[float]]]) -> Chart:
    """Values of which a trial has but a few: their median and how far they reach, for each contestant."""
    groups: dict[str, list[figures.Bar]] = {}
    rows = []
    for c, values in entries:
        case, middle = series.case_title(scenario, c["case"]), spreads.quantile(values, 0.5)
        text = f"{middle:.4g}"
        groups.setdefault(case, []).append(
            figures.Bar(
                c["config"],
                c["variant"],
                _short(c),
                middle,
                values[0],
                values[-1],
                text,
                f"{_full(scenario, c)}\nmedian {text} {unit}\n{values[0]:.4g} to {values[-1]:.4g}",
            )
        )
        rows.append((_full(scenario, c), values))
    alt = f"{title(name)} in {unit}: " + "; ".join(f"{who} {spreads.quantile(values, 0.5):.4g}" for who, values in rows)
    return Chart(
        chart_name(scenario["name"], name),
        title(name),
        "All rounds together: median; lines: from the lowest value to the highest.",
        alt,
        figures.bars(list(groups.items()), unit, own_names=True),
        tables.few(unit, rows),
        title(name),
    )


def _distribution(
    scenario: dict, name: str, unit: str, entries: Sequence[tuple[dict, list[float]]], folded: str
) -> Chart:
    groups: dict[str, list[spreads.Spread]] = {}
    rows = []
    percentiles = {
        c["key"]: c["distributions"][name]["percentiles"]
        for c in scenario["analysis"]["contestants"]
        if name in c["distributions"]
    }
    for c, values in entries:
        case, full = series.case_title(scenario, c["case"]), _full(scenario, c)
        text = ", ".join(
            f"{label} {spreads.quantile(values, share):.4g}"
            for label, share in (("median", 0.5), ("90%", 0.9), ("99%", 0.99))
        )
        groups.setdefault(case, []).append(
            spreads.Spread(c["config"], _short(c), values, f"{full}\n{text} {unit}", c["workers"])
        )
        rows.append((full, percentiles.get(c["key"], {}), values))
    table, label = tables.spreads(unit, rows), title(name)
    most = max(c["workers"] for c, _ in entries)
    if len(entries) > MOST_ROWS:
        groups = {
            case: [spread for spread in group if spread.workers == most] or group for case, group in groups.items()
        }
    alt = f"Distributions: {label}, {unit}: " + "; ".join(
        f"{row} median {spreads.quantile(v, 0.5):.4g}, 99% {spreads.quantile(v, 0.99):.4g}" for row, _, v in rows
    )
    return Chart(
        chart_name(scenario["name"], name),
        f"{label}: all of them, not only the median",
        "All rounds together. Boxes: the middle half, with the median; lines: from 1% to 99%; figures beside "
        "them: median · 99th percentile. The table has each round's own percentiles.",
        alt,
        spreads.boxes(list(groups.items()), unit),
        table,
        folded,
    )
