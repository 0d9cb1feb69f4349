"""What a scenario measured, arranged as charts and tables want it: by contestant, case and number of workers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from ftbench.plan.contestants import CONFIGS
from ftbench.plan.variants import VARIANTS

# Units that a mark on an axis has room for.
SHORT_UNITS = ("bytes", "B", "seconds", "s")
# Seconds in units of time.
SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
RATIO_MARKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class Measured:
    """One contestant's values of one metric, in the metric's unit."""

    key: str
    title: str
    config: str
    variant: str
    workers: int
    case: str
    """The name of the condition it ran under, "" where the scenario has none."""
    values: tuple[float, ...]
    """One for each round."""
    median: float
    low: float
    high: float

    @property
    def series(self) -> tuple[str, str]:
        """Configuration and variant: what has a colour and a hatching of its own."""
        return self.config, self.variant

    @property
    def mean(self) -> float:
        """The arithmetic mean over the rounds."""
        return math.fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over the rounds (n - 1), None of a single one."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def measured(scenario: dict, metric: str) -> list[Measured]:
    """Whoever took part in all rounds, in the order of cases, configurations, variants and workers."""
    about = {c["key"]: c for c in scenario["contestants"]}
    order = {case["name"]: number for number, case in enumerate(scenario["cases"])}
    rounds: dict[str, list[float]] = {}
    for one in scenario["rounds"]:
        for trial in one["trials"]:
            if metric in trial["metrics"]:
                rounds.setdefault(trial["contestant"], []).append(trial["metrics"][metric])
    found = []
    for each in scenario["analysis"]["contestants"]:
        c, spread = about[each["key"]], each["metrics"].get(metric)
        if spread is not None:
            found.append(
                Measured(
                    # The case is told beside the title, in its own words.
                    c["key"],
                    c["title"].replace(f" ({c['case']})", ""),
                    c["config"],
                    c["variant"],
                    c["workers"],
                    c["case"],
                    tuple(rounds[c["key"]]),
                    spread["median"],
                    spread["min"],
                    spread["max"],
                )
            )
    variants = {name: number for number, name in enumerate(VARIANTS)}
    return sorted(
        found,
        key=lambda m: (
            order.get(m.case, -1),
            CONFIGS.index(m.config),
            variants.get(m.variant, len(variants)),
            m.workers,
        ),
    )


def on_an_axis(scenario: dict) -> bool:
    """Whether the cases are values of a quantity, so that a curve can join them."""
    values = [case["value"] for case in scenario["cases"]]
    return len(values) > 1 and None not in values and len(set(values)) == len(values)


def places(scenario: dict) -> dict[str, float]:
    """Where the cases, by name, are on the axis that they are values of."""
    return {case["name"]: case["value"] for case in scenario["cases"] if case["value"] is not None}


def axis_of_cases(scenario: dict) -> tuple[str, list[float], list[str], bool]:
    """(title, places, what is written there, whether it is logarithmic) of the axis that the cases are values of."""
    unit, title = scenario["case_unit"], scenario["case_axis"] or "case"
    values = sorted(places(scenario).values())
    if unit and unit not in SHORT_UNITS:  # a mark has no room for it
        title, unit = f"{title}, {unit}", ""
    return (
        title,
        values,
        [quantity(v, unit) for v in values],
        min(values) > 0 and (unit in SHORT_UNITS or logarithmic(values)),
    )


def logarithmic(values: Iterable[float]) -> bool:
    """Whether values are so far apart that only a logarithmic axis shows them all."""
    values = list(values)
    return min(values) > 0 and max(values) / min(values) >= 10


def case_title(scenario: dict, name: str) -> str:
    """A case in words, "" for no case."""
    return next((case["title"] for case in scenario["cases"] if case["name"] == name), name)


def quantity(value: float, unit: str) -> str:
    """A value of the axis of cases: "64 KiB", "4 MiB", "5 ms", "1,000 names"."""
    if unit in ("bytes", "B"):
        for step, prefixes in ((1024, "KMGT"), (1000, "kMGT")):
            if value and value % step == 0:
                power = 0
                while value >= step and value % step == 0 and power < len(prefixes):
                    value, power = value / step, power + 1
                return f"{value:,.0f} {prefixes[power - 1]}{'iB' if step == 1024 else 'B'}"
        return f"{value:,.0f} B"
    if unit in ("seconds", "s"):
        for factor, name in ((1, "s"), (1e3, "ms")):
            if value * factor >= 1 or not value:
                return f"{value * factor:g} {name}"
        return f"{value * 1e6:g} µs"
    return f"{value:,g} {unit}".strip()


def amount(value: float, unit: str) -> str:
    """A round value on an axis: times and bytes in the prefix that suits them, else the figure alone."""
    if unit in SECONDS and value:
        seconds = value * SECONDS[unit]
        name = next((name for name in ("s", "ms", "µs", "ns") if seconds >= SECONDS[name] * (1 - 1e-9)), "ns")
        return f"{seconds / SECONDS[name]:,.3g} {name}"
    if unit == "MiB" and value >= 1024 and value % 1024 == 0:
        return f"{value / 1024:g} GiB"
    return f"{value:,.0f}" if value >= 1000 else f"{value:g}"


def log_marks(low: float, high: float, unit: str = "", most: int = 8) -> tuple[list[float], list[str]]:
    """Marks of a logarithmic axis and their texts: at 1, 2 and 5 of each power of ten, at fewer where too many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for chosen in ((1, 2, 5), (1, 3), (1,)):
        marks = [m * 10.0**power for power in powers for m in chosen if low <= m * 10.0**power * 1.001]
        marks = [m for m in marks if m <= high * 1.001]
        if len(marks) <= most:
            break
    if len(marks) > most:
        marks = marks[:: math.ceil(len(marks) / most)]
    return marks, [amount(m, unit) for m in marks]


def ratio_marks(least: float, most: float) -> list[float]:
    """Marks of an axis of ratios: not more than can be read, and some where there is little room."""
    marks = [m for m in RATIO_MARKS if least <= m <= most]
    if len(marks) > 7:
        marks = [m for m in marks if m in (0.01, 0.1, 0.5, 1, 2, 10, 100)]
    if len(marks) < 3:
        marks = [m for m in (0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.25) if least <= m <= most]
    return marks
