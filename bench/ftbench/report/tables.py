"""Tables of figures: what each chart shows, for reading, copying and screen readers."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ftbench.plan.metrics import Metric
from ftbench.report import series, words
from ftbench.report.series import Measured


@dataclass(frozen=True)
class Table:
    """Headings and rows of text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]
    """The columns that hold figures, which are lined up on the right."""


def _table(columns: Sequence[tuple[str, bool, Callable]], entries: Sequence) -> Table:
    """A table from (heading, whether it holds figures, text of an entry); columns without any text are left out."""
    texts = [(title, number, [write(entry) for entry in entries]) for title, number, write in columns]
    texts = [(title, number, cells) for title, number, cells in texts if any(cells)]
    return Table(
        tuple(title for title, _, _ in texts),
        tuple(zip(*(cells for _, _, cells in texts), strict=True)),
        frozenset(place for place, (_, number, _) in enumerate(texts) if number),
    )


def measured(scenario: dict, metric: Metric, found: Sequence[Measured]) -> Table:
    """What contestants measured of a metric."""
    write = metric.write
    return _table(
        [
            (scenario.get("case_axis") or "case", False, lambda m: series.case_title(scenario, m.case)),
            ("contestant", False, lambda m: m.title),
            (f"median, {metric.unit}", True, lambda m: write(m.median)),
            ("lowest", True, lambda m: write(m.low)),
            ("highest", True, lambda m: write(m.high)),
            ("mean", True, lambda m: write(m.mean)),
            ("standard deviation", True, lambda m: "" if m.deviation is None else write(m.deviation)),
            ("rounds", True, lambda m: str(len(m.values))),
        ],
        found,
    )


def ratios(scenario: dict, comparisons: Sequence[dict]) -> Table:
    """Comparisons with their intervals and verdicts."""
    about = {c["key"]: c for c in scenario["contestants"]}
    return _table(
        [
            (
                scenario.get("case_axis") or "case",
                False,
                lambda c: series.case_title(scenario, about[c["numerator"]].get("case", "")),
            ),
            ("comparison", False, lambda c: c["title"]),
            ("ratio", True, lambda c: words.times(c["mean"])),
            ("95% CI", True, words.interval),
            ("could have seen", True, lambda c: words.change(c["resolution"]) if c["resolution"] else ""),
            ("p, adjusted", True, lambda c: "" if c["q"] is None else words.probability(c["q"])),
            ("verdict", False, lambda c: words.short(scenario, c)),
            ("target", False, words.target),
        ],
        comparisons,
    )


def outcomes(scenario: dict, comparisons: Sequence[dict]) -> Table:
    """Comparisons in words."""
    return _table(
        [
            ("comparison", False, lambda c: words.title_with_case(scenario, c)),
            (f"{words.metric(scenario).noun} (95% confidence interval)", False, lambda c: words.short(scenario, c)),
            ("target", False, words.target),
        ],
        comparisons,
    )


def spreads(unit: str, entries: Sequence[tuple[str, dict, Sequence[float]]]) -> Table:
    """Distributions: `entries` are (name, percentiles as the analysis has them, values in order of size).

    Percentiles are those of each round: their median, and from the lowest round to the highest.
    """

    def percentile(which: str) -> Callable[[tuple], str]:
        def write(entry: tuple) -> str:
            found = entry[1].get(which)
            return f"{found['median']:.4g} ({found['min']:.4g} to {found['max']:.4g})" if found else ""

        return write

    return _table(
        [
            ("contestant", False, lambda e: e[0]),
            ("values", True, lambda e: f"{len(e[2]):,}"),
            (f"median, {unit}", True, percentile("50")),
            ("90%", True, percentile("90")),
            ("99%", True, percentile("99")),
            ("largest", True, lambda e: f"{e[2][-1]:.4g}"),
        ],
        entries,
    )


def curves(unit: str, over: str, entries: Sequence[tuple[str, float, float, float, float]]) -> Table:
    """Curves: `entries` are (name, where it begins, first, last and largest value)."""
    return _table(
        [
            ("contestant", False, lambda e: e[0]),
            (f"first {over}", True, lambda e: f"{e[1]:,g}"),
            (f"{unit} there", True, lambda e: f"{e[2]:.4g}"),
            ("at the end", True, lambda e: f"{e[3]:.4g}"),
            ("largest of any round", True, lambda e: f"{e[4]:.4g}"),
        ],
        entries,
    )


def few(unit: str, entries: Sequence[tuple[str, Sequence[float]]]) -> Table:
    """Few values: `entries` are (name, values in order of size)."""
    return _table(
        [
            ("contestant", False, lambda e: e[0]),
            ("values", True, lambda e: str(len(e[1]))),
            (f"median, {unit}", True, lambda e: f"{statistics.median_low(e[1]):.4g}"),
            ("lowest", True, lambda e: f"{e[1][0]:.4g}"),
            ("highest", True, lambda e: f"{e[1][-1]:.4g}"),
        ],
        entries,
    )


def rounds(scenario: dict) -> Table:
    """What else the machine did in each round, as far as it could be read."""

    def figure(name: str) -> Callable[[dict], str]:
        def write(one: dict) -> str:
            value = (one["disturbance"] or {}).get(name)
            return "" if value is None else f"{value:.2f}"

        return write

    def load(one: dict) -> str:
        values = ((one["disturbance"] or {}).get("before") or {}).get("load")
        return f"{values[0]:.2f}" if values else ""

    return _table(
        [
            ("round", True, lambda one: str(one["number"])),
            ("seconds", True, lambda one: f"{one['seconds']:.0f}"),
            ("load before", True, load),
            ("CPUs used", True, figure("own_cpus")),
            ("by others", True, figure("other_cpus")),
            ("stolen", True, figure("stolen_cpus")),
            ("throttled, s", True, figure("throttled_seconds")),
            ("disturbed by", False, lambda one: ", ".join((one["disturbance"] or {}).get("marks") or ())),
        ],
        scenario["rounds"],
    )
