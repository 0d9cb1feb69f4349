"""Tables of the figures in each chart, for reading, copying and screen readers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from ftbench.document.model import Scenario
from ftbench.plan.candidates import CONFIGS, VARIANTS, Candidate
from ftbench.plan.metrics import Metric
from ftbench.report import run_words, verdict_words
from ftbench.stats.analysis import AnalysedScenario
from ftbench.stats.comparisons import Comparison
from ftbench.stats.statistics import percentiles


@dataclass(frozen=True)
class Table:
    """Table of text: headings and rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]
    """Positions of the columns of figures, which are aligned on the right."""


def _table(columns: Sequence[tuple[str, bool, Callable]], entries: Sequence) -> Table:
    """Return a table with a row for each entry. Columns without any text are left out.

    A column is (heading, True for figures, function that returns an entry's text).
    """
    texts = [(title, number, [write(entry) for entry in entries]) for title, number, write in columns]
    texts = [(title, number, cells) for title, number, cells in texts if any(cells)]
    return Table(
        tuple(title for title, _, _ in texts),
        tuple(zip(*(cells for _, _, cells in texts), strict=True)),
        frozenset(place for place, (_, number, _) in enumerate(texts) if number),
    )


@dataclass(frozen=True)
class Measured:
    """One candidate's values of one metric, one for each round, and their statistics, in the metric's unit."""

    candidate: Candidate
    values: tuple[float, ...]
    median: float
    low: float
    high: float
    mean: float
    deviation: float
    """The standard deviation (n - 1); 0 for a single round."""


def candidates(scenario: Scenario, metric: str) -> list[Measured]:
    """Return the values of candidates of every round, sorted by case, configuration, variant and workers."""
    cases, variants = ["", *(case.name for case in scenario.cases)], [*VARIANTS]

    def place(c: Candidate) -> tuple:
        return cases.index(c.case), CONFIGS.index(c.config), variants.index(c.variant), c.workers

    found = []
    for c in sorted(scenario.whole, key=place):
        values = tuple(scenario.in_each_process(c.key, metric))
        deviation = stdev(values) if len(values) > 1 else 0.0
        found.append(Measured(c, values, median(values), min(values), max(values), fmean(values), deviation))
    return found


def measured(scenario: Scenario, metric: Metric) -> Table:
    """Return a table of a metric with a row for each candidate."""
    write = metric.write
    return _table(
        [
            (scenario.case_axis or "case", False, lambda m: run_words.case_title(scenario, m.candidate.case)),
            ("candidate", False, lambda m: run_words.own_title(m.candidate)),
            (f"median, {metric.unit}", True, lambda m: write(m.median)),
            ("lowest", True, lambda m: write(m.low)),
            ("highest", True, lambda m: write(m.high)),
            ("mean", True, lambda m: write(m.mean)),
            ("standard deviation", True, lambda m: write(m.deviation) if len(m.values) > 1 else ""),
            ("rounds", True, lambda m: str(len(m.values))),
        ],
        candidates(scenario, metric.name),
    )


def ratios(scenario: AnalysedScenario, comparisons: Sequence[Comparison]) -> Table:
    """Return a table of comparisons with their ratios, intervals and verdicts."""
    return _table(
        [
            (scenario.case_axis or "case", False, lambda c: run_words.case_title(scenario, c.numerator.case)),
            ("comparison", False, lambda c: run_words.title_with_why(scenario, c)),
            ("ratio", True, lambda c: f"{verdict_words.figure(c.ratio)}x"),
            ("95% CI", True, verdict_words.interval),
            ("could have seen", True, lambda c: verdict_words.change(c.resolution) if c.resolution else ""),
            ("p, adjusted", True, lambda c: "" if c.q is None else f"{c.q:.3f}" if c.q >= 0.001 else "< 0.001"),
            ("verdict", False, verdict_words.short),
            ("target", False, verdict_words.target),
        ],
        comparisons,
    )


def outcomes(scenario: AnalysedScenario, comparisons: Sequence[Comparison]) -> Table:
    """Return a table of comparisons with their outcomes in words."""
    return _table(
        [
            ("comparison", False, lambda c: run_words.title(scenario, c.numerator, c.denominator, with_case=True)),
            (f"{scenario.metric.noun} (95% confidence interval)", False, verdict_words.short),
            ("target", False, verdict_words.target),
        ],
        comparisons,
    )


def pooled(unit: str, entries: Sequence[tuple[str, Sequence[Sequence[float]]]]) -> Table:
    """Return a table of values that trials kept; `entries` are (name, values of each round).

    Percentiles are taken within each round. The table has the median, lowest and highest of the rounds.
    """

    rows = []
    for name, values in entries:
        cells = [f"{middle:.4g} ({low:.4g} to {high:.4g})" for middle, low, high in percentiles(values).values()]
        ends = f"{min(map(min, values)):.4g}", f"{max(map(max, values)):.4g}"
        rows.append((name, f"{sum(map(len, values)):,}", *cells, *ends))
    head = ("candidate", "values", f"median, {unit}", "90%", "99%", "smallest", "largest")
    return Table(head, tuple(rows), frozenset(range(1, len(head))))
