"""Tables of the figures in each chart, for reading, copying and screen readers."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
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


Columns = list[tuple[str, bool, Callable]]
"""Columns of a table: (heading, True if the cells are figures,
function that returns the cell's text for an entry).
"""


def _table(columns: Columns, entries: Sequence) -> Table:
    """Return a table with a row for each entry."""
    head: list[str] = []
    texts: list[list[str]] = []
    numbers = set()
    for heading, is_number, write in columns:
        cells = [write(entry) for entry in entries]
        # Columns without any text are left out.
        if not any(cells):
            continue
        if is_number:
            numbers.add(len(head))
        head.append(heading)
        texts.append(cells)
    return Table(tuple(head), tuple(zip(*texts, strict=True)), frozenset(numbers))


@dataclass(frozen=True)
class Measured:
    """One candidate's values of one metric, one for each round, in the metric's unit."""

    candidate: Candidate
    values: list[float]

    @property
    def typical(self) -> float:
        """Geometric mean of the values, as in ratios (MeasuredScenario.typical)."""
        return geometric_mean(self.values)

    @property
    def low(self) -> float:
        """The lowest value."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The highest value."""
        return max(self.values)


def candidates(scenario: MeasuredScenario, metric: str) -> list[Measured]:
    """Return a metric of each candidate that was in all rounds, sorted by case, configuration,
    variant and workers.
    """
    cases, variants = ["", *(case.name for case in scenario.cases)], [*VARIANTS]

    def place(candidate: Candidate) -> tuple[int, ...]:
        return (
            cases.index(candidate.case),
            CONFIGS.index(candidate.config),
            variants.index(candidate.variant),
            candidate.workers,
        )

    entries = []
    for candidate in sorted(scenario.whole, key=place):
        values = scenario.in_each_process(candidate.key, metric)
        entries.append(Measured(candidate, values))
    return entries


def measured(scenario: MeasuredScenario, metric: Metric) -> Table:
    """Return a table of a metric's values: mean, lowest and highest of each candidate."""

    def case(m: Measured) -> str:
        return run_words.case_title(scenario, m.candidate.case)

    write = metric.write
    columns: Columns = [
        (scenario.case_axis or "case", False, case),
        ("candidate", False, lambda m: run_words.own_title(m.candidate)),
        (f"mean, {metric.unit}", True, lambda m: write(m.typical)),
        ("lowest", True, lambda m: write(m.low)),
        ("highest", True, lambda m: write(m.high)),
        ("rounds", True, lambda m: str(len(m.values))),
    ]
    return _table(columns, candidates(scenario, metric.name))


def ratios(scenario: MeasuredScenario, comparisons: Sequence[MeasuredComparison]) -> Table:
    """Return a table of comparisons with their ratios, intervals and verdicts."""

    def case(c: MeasuredComparison) -> str:
        return run_words.case_title(scenario, c.numerator.case)

    verdict = partial(verdict_words.short, factors=in_factors(comparisons))
    columns: Columns = [
        (scenario.case_axis or "case", False, case),
        ("comparison", False, lambda c: run_words.title_with_why(scenario, c)),
        ("ratio", True, lambda c: verdict_words.factor(c.estimate.ratio)),
        ("95% CI", True, verdict_words.interval),
        ("p, adjusted", True, lambda c: _p_value(c.estimate.q)),
        ("verdict", False, verdict),
    ]
    return _table(columns, comparisons)


def in_factors(
    comparisons: Iterable[MeasuredComparison],
    limits: verdict_words.RatioLimits = verdict_words.NEXT_TO_FACTORS,
) -> bool:
    """True if a table of these comparisons gives factors: see verdict_words.in_factors."""
    estimates = [comparison.estimate for comparison in comparisons]
    return verdict_words.in_factors(estimates, limits)


def _p_value(p: float | None) -> str:
    if p is None:
        return ""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def outcomes(scenario: AnalysedScenario, comparisons: Sequence[MeasuredComparison]) -> Table:
    """Return a table of comparisons with their outcomes in words."""

    def title(c: MeasuredComparison) -> str:
        return run_words.title(scenario.record, c.numerator, c.denominator, with_case=True)

    heading = f"{scenario.metric.noun} (95% confidence interval)"
    verdict = partial(verdict_words.short, factors=in_factors(comparisons, verdict_words.ALONE))
    columns: Columns = [("comparison", False, title), (heading, False, verdict)]
    return _table(columns, comparisons)
