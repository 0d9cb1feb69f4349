"""A step that loads and trains, against its two bounds: the longer of both alone, and their sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ftbench.report import series, spreads, tables
from ftbench.report.chart import Chart
from ftbench.report.chart import name as chart_name
from ftbench.stats.statistics import median

# What trials keep, milliseconds of one repetition after the other: both together, and each alone.
STEP, LOAD, TRAIN = NAMES = ("step", "load", "train")


@dataclass(frozen=True)
class Bounded:
    """One contestant's medians over the rounds, and the steps of its fastest and slowest round."""

    contestant: dict
    unit: str
    load: float
    train: float
    step: float
    fastest: float
    slowest: float

    @property
    def least(self) -> float:
        """Where loading and training overlap perfectly."""
        return max(self.load, self.train)

    @property
    def most(self) -> float:
        """Where they do not overlap at all."""
        return self.load + self.train


def bounded(scenario: dict) -> list[Bounded]:
    """The contestants whose trials kept a step and its two parts, in the order of the charts of metrics."""
    rounds: dict[str, list[dict]] = {}
    for one in scenario["rounds"]:
        for trial in one["trials"]:
            if set(NAMES) <= set(trial["distributions"]):
                rounds.setdefault(trial["contestant"], []).append(trial["distributions"])
    about = {c["key"]: c for c in scenario["contestants"]}
    found = []
    for m in series.measured(scenario, scenario["metrics"][0]):
        if m.key in rounds:
            of = {name: [median(one[name]["values"]) for one in rounds[m.key]] for name in NAMES}
            found.append(
                Bounded(
                    about[m.key],
                    rounds[m.key][0][STEP]["unit"],
                    median(of[LOAD]),
                    median(of[TRAIN]),
                    median(of[STEP]),
                    min(of[STEP]),
                    max(of[STEP]),
                )
            )
    return found


def charts(scenario: dict) -> Iterator[Chart]:
    """One chart of all contestants; none of a scenario that keeps no such times."""
    found = bounded(scenario)
    if not found:
        return
    unit = found[0].unit
    groups: dict[str, list[spreads.Between]] = {}
    for b in found:
        c = b.contestant
        case, title = series.case_title(scenario, c["case"]), c["title"].replace(f" ({c['case']})", "")
        groups.setdefault(case, []).append(
            spreads.Between(
                c["config"],
                c["variant"],
                title,
                b.least,
                b.most,
                b.step,
                b.fastest,
                b.slowest,
                f"{title}{f', {case}' if case else ''}\nstep {b.step:.4g} {unit} ({b.fastest:.4g} to {b.slowest:.4g})"
                f"\nloading alone {b.load:.4g}, training alone {b.train:.4g}"
                f"\ntheir maximum {b.least:.4g}, their sum {b.most:.4g}",
            )
        )
    alt = f"A step between its bounds, {unit}: " + "; ".join(
        f"{b.contestant['title']} {b.step:.4g}, between {b.least:.4g} and {b.most:.4g}" for b in found
    )
    yield Chart(
        chart_name(scenario["name"], "bounds"),
        "A step between its bounds: further left is better",
        "Bars: from max(load, train), perfect overlap, to load + train, none. Marks: the step as measured, "
        "median of the rounds; lines: from the fastest round to the slowest.",
        alt,
        spreads.between(list(groups.items()), f"{unit} a step"),
        tables.bounds(scenario, found),
    )
