"""Tables of the figures in each chart, for reading, copying and screen readers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from ftbench.document.model import MeasuredScenario
from ftbench.plan.candidates import CONFIGS, VARIANTS, Candidate
from ftbench.plan.metrics import Metric
from ftbench.report import run_words, verdict_words
from ftbench.stats.analysis import AnalysedScenario
from ftbench.stats.comparisons import MeasuredComparison


@dataclass(frozen=True)
class Table:
    """Table of text: headings and rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[int]
    """Positions of the columns that hold figures and are aligned on the right."""


def _table(columns: Sequence[tuple[str, bool, Callable]], entries: Sequence) -> Table:
    """Return a table with a row for each entry.

    A column is (heading, True if its cells are figures,
    function that returns the cell's text for an entry).
    """
    # Columns without any text are left out.
    texts = [
        (title, number, [write(entry) for entry in entries]) for title, number, write in columns
    ]
    texts = [(title, number, cells) for title, number, cells in texts if any(cells)]
    return Table(
        tuple(title for title, _, _ in texts),
        tuple(zip(*(cells for _, _, cells in texts), strict=True)),
        frozenset(place for place, (_, number, _) in enumerate(texts) if number),
    )


@dataclass(frozen=True)
class Measured:
    """One candidate's values of one metric, one for each round, in the metric's unit."""

    candidate: Candidate
    values: list[float]
    typical: float
    """Geometric mean of the values, as in ratios (see MeasuredScenario.typical)."""
    low: float
    high: float


def candidates(scenario: MeasuredScenario, metric: str) -> list[Measured]:
    """Return a metric of each candidate that was in all rounds, sorted by case, configuration,
    variant and workers.
    """
    cases, variants = ["", *(case.name for case in scenario.cases)], [*VARIANTS]

    def place(c: Candidate) -> tuple:
        return cases.index(c.case), CONFIGS.index(c.config), variants.index(c.variant), c.workers

    entries = []
    for c in sorted(scenario.whole, key=place):
        values = scenario.in_each_process(c.key, metric)
        entries.append(Measured(c, values, geometric_mean(values), min(values), max(values)))
    return entries


def measured(scenario: MeasuredScenario, metric: Metric) -> Table:
    """Return a table of a metric's values: mean, lowest and highest of each candidate."""
    write = metric.write
    return _table(
        [
            (
                scenario.case_axis or "case",
                False,
                lambda m: run_words.case_title(scenario, m.candidate.case),
            ),
            ("candidate", False, lambda m: run_words.own_title(m.candidate)),
            (f"mean, {metric.unit}", True, lambda m: write(m.typical)),
            ("lowest", True, lambda m: write(m.low)),
            ("highest", True, lambda m: write(m.high)),
            ("rounds", True, lambda m: str(len(m.values))),
        ],
        candidates(scenario, metric.name),
    )


def ratios(scenario: MeasuredScenario, comparisons: Sequence[MeasuredComparison]) -> Table:
    """Return a table of comparisons with their ratios, intervals and verdicts."""
    return _table(
        [
            (
                scenario.case_axis or "case",
                False,
                lambda c: run_words.case_title(scenario, c.numerator.case),
            ),
            ("comparison", False, lambda c: run_words.title_with_why(scenario, c)),
            ("ratio", True, lambda c: f"{verdict_words.figure(c.estimate.ratio)}x"),
            ("95% CI", True, verdict_words.interval),
            ("p, adjusted", True, lambda c: _p_value(c.estimate.q)),
            ("verdict", False, verdict_words.short),
        ],
        comparisons,
    )


def _p_value(p: float | None) -> str:
    if p is None:
        return ""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def outcomes(scenario: AnalysedScenario, comparisons: Sequence[MeasuredComparison]) -> Table:
    """Return a table of comparisons with their outcomes in words."""
    return _table(
        [
            (
                "comparison",
                False,
                lambda c: run_words.title(
                    scenario.record, c.numerator, c.denominator, with_case=True
                ),
            ),
            (f"{scenario.metric.noun} (95% confidence interval)", False, verdict_words.short),
        ],
        comparisons,
    )
