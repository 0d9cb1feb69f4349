"""Tables of figures: what each chart shows, for reading, copying and screen readers."""

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
    """Headings and rows of text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]
    """The columns that hold figures, which are lined up on the right."""


def _table(columns: Sequence[tuple[str, bool, Callable]], entries: Sequence) -> Table:
    """Return a table of (heading, True for figures, text of an entry); columns without any text are left out."""
    texts = [(title, number, [write(entry) for entry in entries]) for title, number, write in columns]
    texts = [(title, number, cells) for title, number, cells in texts if any(cells)]
    return Table(
        tuple(title for title, _, _ in texts),
        tuple(zip(*(cells for _, _, cells in texts), strict=True)),
        frozenset(place for place, (_, number, _) in enumerate(texts) if number),
    )


@dataclass(frozen=True)
class Measured:
    """One candidate's values of one metric, in the metric's unit, one for each round, and what sums them up."""

    candidate: Candidate
    values: tuple[float, ...]
    median: float
    low: float
    high: float
    mean: float
    deviation: float
    """The standard deviation (n - 1), 0 of a single round."""


def candidates(scenario: Scenario, metric: str) -> list[Measured]:
    """Return the candidates of all rounds, in the order of cases, configurations, loaders and workers."""
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
    """Tabulate a metric of all candidates."""
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
    """Tabulate comparisons with their intervals and verdicts."""
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
    """Tabulate comparisons in words."""
    return _table(
        [
            ("comparison", False, lambda c: run_words.title(scenario, c.numerator, c.denominator, with_case=True)),
            (f"{scenario.metric.noun} (95% confidence interval)", False, verdict_words.short),
            ("target", False, verdict_words.target),
        ],
        comparisons,
    )


def pooled(unit: str, entries: Sequence[tuple[str, Sequence[Sequence[float]]]]) -> Table:
    """Tabulate the values of all rounds; `entries` are (name, values of each round).

    Percentiles are taken within rounds: their median, and from the lowest round to the highest.
    """

    rows = []
    for name, values in entries:
        cells = [f"{middle:.4g} ({low:.4g} to {high:.4g})" for middle, low, high in percentiles(values).values()]
        ends = f"{min(map(min, values)):.4g}", f"{max(map(max, values)):.4g}"
        rows.append((name, f"{sum(map(len, values)):,}", *cells, *ends))
    head = ("candidate", "values", f"median, {unit}", "90%", "99%", "smallest", "largest")
    return Table(head, tuple(rows), frozenset(range(1, len(head))))
