"""The wording of the benchmark's verdicts: of one ratio, of a scenario, of a waterfall."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ftbench.document.model import Change, MeasuredScenario, Verdict, Waterfall
from ftbench.plan.candidates import Candidate
from ftbench.plan.metrics import METRICS, Metric
from ftbench.plan.unit import RUN
from ftbench.plan.waterfall import REMOVED, TODAY
from ftbench.report import run_words
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftbench.stats.comparisons import MeasuredComparison, level, more_minutes
from ftbench.stats.statistics import negligible
from ftrun.configurations import CONFIGURATIONS

# The most cases that a sentence tells.
MOST_CASES = 5
# The number of metrics that are ratios by themselves and get a sentence:
# the main one, and one more.
TOLD = 2
NOT_COMPARED = "gave other samples: not compared"
# Two rounds can give intervals over many powers of ten, whose digits say nothing.
MOST_TIMES = 1000
TOO_FEW = "too few rounds to be sure"
UNCERTAIN = "not certain"


class RatioLimits(NamedTuple):
    """Limits of ratios that are given in percent. The ends of intervals may lie further from 1."""

    least: float
    most: float
    least_end: float
    most_end: float


ALONE = RatioLimits(0.1, 2.0, 0.05, 3.0)
NEXT_TO_FACTORS = RatioLimits(0.1, 10.0, 0.01, 30.0)
"""Limits where the factor, too, is next to the words."""


def figure(value: float) -> str:
    """Format a ratio: "1.57"; very large and very small ones are shown as bounds: ">100"."""
    # Two rounds can give intervals over many powers of ten, whose digits say nothing.
    if value < 0.1:
        return f"{value:.3f}" if value >= 0.001 else "<0.001"
    return ">100" if value > 100 else f"{value:.2f}"


def factor(ratio: float) -> str:
    """Format a ratio as a factor: "1.57x"."""
    return f"{figure(ratio)}x"


def interval(comparison: MeasuredComparison) -> str:
    """Return a ratio's confidence interval: "1.48 to 1.66", or "-" for a single round."""
    low, high = comparison.estimate.low, comparison.estimate.high
    if low is None or high is None:
        return "-"
    return f"{figure(low)} to {figure(high)}"


def percent(ratio: float) -> str:
    """Return how far a ratio is from 1, without direction: "57%"."""
    part = abs(ratio - 1)
    decimals = 1 if part < 0.0095 else 0
    return f"{100 * part:.{decimals}f}%"


def distance(ratio: float, factors: bool | None = None) -> str:
    """Return how far two values with this ratio are apart: "57%", "5.2 times".

    factors: the form, as for `outcome`.
    """
    far = max(ratio, 1 / ratio)
    if factors is None:
        factors = in_factors([far])
    return f"{times(far)} times" if factors else percent(far)


def times(ratio: float) -> str:
    """Format a factor with two or three digits: "0.49", "1.04", "5.2", "92", "more than 1,000"."""
    if ratio >= MOST_TIMES:
        return f"more than {MOST_TIMES:,}"
    if ratio < 1 / MOST_TIMES:
        return f"less than {1 / MOST_TIMES:g}"
    if ratio >= 9.95:
        return f"{ratio:.0f}"
    decimals = 1
    if ratio < 3:
        decimals = 2 if ratio >= 0.0995 else 3
    return f"{ratio:.{decimals}f}"


def in_factors(ratios: Iterable[float | Change], limits: RatioLimits = ALONE) -> bool:
    """True if a phrase or a table with all these ratios gives them as factors ("2.1 times as
    fast"), False if in percent ("57% faster"). A single one that needs factors decides for all.
    """
    return any(_needs_factors(ratio, limits) for ratio in ratios)


def _needs_factors(ratio: float | Change, limits: RatioLimits) -> bool:
    """True if a ratio, or an end of the interval that `outcome` gives, is beyond the limits."""
    if not isinstance(ratio, Change):
        return not limits.least <= ratio <= limits.most
    if ratio.verdict == Verdict.OTHER_SAMPLES:
        return False
    ends: Sequence[float] = ()
    if ratio.verdict != Verdict.TOO_FEW and ratio.interval:
        ends = ratio.interval
    outside = [end for end in ends if not limits.least_end <= end <= limits.most_end]
    return bool(outside) or _needs_factors(ratio.ratio, limits)


def directed(metric: Metric, ratio: float, factors: bool | None = None) -> str:
    """Return a ratio with its direction: "57% faster", "14% less memory", "92 times as long".

    factors: the form, as for `outcome`.
    """
    if factors is None:
        factors = in_factors([ratio])
    if factors:
        return f"{times(ratio)} times {metric.multiple}"
    direction = metric.above if ratio > 1 else metric.below
    return f"{percent(ratio)} {direction}"


def _span(low: float, high: float, factors: bool) -> str:
    """Return the interval of a ratio that is above or below 1: "48% to 66%", "65 to 130"."""
    if factors:
        return f"{times(low)} to {times(high)}"
    return " to ".join(map(percent, sorted((low, high), key=_logarithm)))


def _logarithm(ratio: float) -> float:
    """Return how far a ratio is from 1, for sorting."""
    return abs(math.log(ratio))


def outcome(metric: Metric, c: Change, factors: bool | None = None) -> str:
    """Return a ratio's verdict in words: "57% faster (48% to 66%)", "2.1 times as fast (1.9 to
    2.3)", "between 23% slower and 92% faster".

    factors: the form, which `in_factors` returns for all ratios of a table; None for a ratio that
    stands alone.
    """
    if c.verdict == Verdict.OTHER_SAMPLES:
        return NOT_COMPARED
    if factors is None:
        factors = in_factors([c])
    size = directed(metric, c.ratio, factors)
    if c.verdict == Verdict.TOO_FEW or c.low is None or c.high is None:
        return f"{size} ({TOO_FEW})"
    low, high = c.low, c.high
    if c.shown:
        return f"{size} ({_span(low, high, factors)})"
    if low <= 1 <= high and not negligible(low, high):
        return _between(metric, low, high, factors)
    if negligible(c.ratio):
        return f"the same within {percent(max(high, 1 / low))}"
    return f"{size} ({_span(low, high, factors)}), {UNCERTAIN}"


def _between(metric: Metric, low: float, high: float, factors: bool) -> str:
    """Return the interval of a ratio that may be above or below 1."""
    if factors:
        return f"between {times(low)} and {times(high)} times {metric.multiple}"
    return f"between {percent(low)} {metric.below} and {percent(high)} {metric.above}"


def short(comparison: MeasuredComparison, factors: bool | None = None) -> str:
    """Return a comparison's verdict in the words of its metric: "57% faster (48% to 66%)"; see
    `outcome`.
    """
    return outcome(METRICS[comparison.metric], comparison.estimate, factors)


def settles(scenario: MeasuredScenario, c: Change, metric: str = "") -> str | None:
    """Return words for an undecided ratio, such as "5 more minutes would settle it";
    None for any other ratio.
    """
    minutes = more_minutes(scenario, c, metric)
    if minutes is None:
        return None
    if minutes:
        return f"{run_words.count(minutes, 'more minute')} would settle it"
    rounds, smallest = run_words.rounds(scenario), distance(c.resolution or 1.0)
    return f"in {rounds}, differences below about {smallest} may be missed"


def conclusion(scenario: MeasuredScenario, group: Sequence[MeasuredComparison]) -> str:
    """Return a sentence on one comparison in one metric; `group` is the comparison in one case or
    in several cases.
    """
    a, b = group[0].numerator, group[0].denominator
    before = ""
    if a.workers and a.workers == b.workers:
        before = f"With {run_words.each_with(scenario, a.workers)}, "
    same_case = a.case == b.case
    options = {"with_workers": a.workers != b.workers, "with_case": not same_case}
    sides = [run_words.describe(scenario, candidate, **options) for candidate in (a, b)]
    most = MOST_CASES if same_case else 1
    ranked = sorted(group, key=_size, reverse=True)[:most]
    largest = [comparison for comparison in group if comparison in ranked]
    few, separator = "", ": "
    if same_case:
        if len(largest) < len(group):
            few = f" (the largest differences of {len(group)})"
        if run_words.case_title(scenario, largest[-1].numerator.case):
            separator = ", "
    verdicts = "; ".join(_verdicts(scenario, largest, same_case, alone=len(group) == 1))
    return run_words.capital(f"{before}{' against '.join(sides)}{separator}{verdicts}{few}.")


def _size(comparison: MeasuredComparison) -> float:
    """Return how far a comparison's ratio is from 1, for sorting."""
    return _logarithm(comparison.estimate.ratio)


def _verdicts(
    scenario: MeasuredScenario, group: Sequence[MeasuredComparison], with_case: bool, alone: bool
) -> Iterator[str]:
    """Yield verdicts in words, each with its case.

    If *alone*, the words say what would settle an undecided comparison.
    """
    metric = METRICS[group[0].metric]
    noun = "" if metric.above in ("faster", "more memory") else f"{metric.noun} "
    factors = in_factors(comparison.estimate for comparison in group)
    for comparison in group:
        words = noun + short(comparison, factors)
        noun = ""  # only the first verdict names the metric
        if alone and (more := settles(scenario, comparison.estimate, comparison.metric)):
            words += f" ({more})"
        case = run_words.case_title(scenario, comparison.numerator.case) if with_case else ""
        yield run_words.join(case, words, separator=": ")


def levels(scenario: MeasuredScenario) -> list[str]:
    """Return a sentence for each case and metric, with the mean of every candidate.

    Only metrics that are themselves ratios, such as step_over_max, have sentences: those among the
    first TOLD metrics of the scenario.
    """
    metrics = [METRICS[name] for name in scenario.metrics[:TOLD]]
    ratios = [metric for metric in metrics if metric.ideal == "1"]
    cases: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in scenario.whole:
        cases[candidate.case].append(candidate)
    sentences = []
    for case, candidates in cases.items():
        title = run_words.case_title(scenario, case)
        for metric in ratios:
            subject = run_words.join(metric.title, title)
            means = ", ".join(_means(scenario, candidates, metric))
            sentences.append(f"{subject}: {means}.")
    return sentences


def _means(
    scenario: MeasuredScenario, candidates: Sequence[Candidate], metric: Metric
) -> Iterator[str]:
    unit = f" {metric.unit}"
    for candidate in candidates:
        mean = level(scenario, candidate.key, metric.name)
        words = metric.write(mean.ratio) + unit
        unit = ""  # only the first mean has the unit
        if mean.low and mean.high:
            words += f" ({metric.write(mean.low)} to {metric.write(mean.high)})"
        yield f"{words} with {run_words.describe(scenario, candidate, with_case=False)}"


def answer(scenario: AnalysedScenario) -> list[str]:
    """Return sentences that answer the scenario's question:
    on its main metric, and on others (Metric.answers).
    """
    first, *further = scenario.record.metrics
    sentences = levels(scenario.record)[:1] or _compared(scenario, first)
    for name in further:
        if METRICS[name].answers:
            sentences += _compared(scenario, name)
    return sentences


def _compared(scenario: AnalysedScenario, metric: str) -> list[str]:
    """Return sentences on the first comparison in *metric* and on each other "headline",
    in all their cases.
    """
    groups: dict[tuple, list[MeasuredComparison]] = defaultdict(list)
    for c in scenario.principal(metric):
        groups[c.sides, c.numerator.workers, c.denominator.workers].append(c)
    sentences: list[str] = []
    for group in groups.values():
        if not sentences or group[0].kind == "headline":
            sentences.append(conclusion(scenario.record, group))
    return sentences


def last_against_first(run: Analysis, fall: Waterfall) -> str:
    """Return the last and the first candidate of a waterfall:
    "threads without the GIL against torch's DataLoader".
    """
    return " against ".join(_ends(run, fall))


def _ends(run: Analysis, fall: Waterfall) -> tuple[str, str]:
    scenario = run.scenario(fall.scenario)
    start = scenario.candidate(fall.throughput.start.candidate)
    against = "torch's DataLoader with processes"
    if start.variant != TODAY:
        against = run_words.describe(scenario, start, with_case=False)
    last = scenario.candidate(fall.throughput.steps[-1].candidate)
    if fall.unit is RUN:
        return CONFIGURATIONS[last.config].build, CONFIGURATIONS[start.config].build
    return f"threads {CONFIGURATIONS[last.config].phrase}", against


def sentence(run: Analysis, fall: Waterfall) -> str:
    """Return a sentence with a waterfall's total effect. If the last step only removes the GIL, add
    its effect. Add the effect of each further step.
    """
    metric, steps = METRICS["throughput"], fall.throughput
    last = steps.steps[-1]
    if steps.total.verdict == Verdict.OTHER_SAMPLES:
        ends = " gave other samples than ".join(_ends(run, fall))
        return f"{fall.workload}: {ends}, so their speeds are not compared."
    total = outcome(metric, steps.total)
    last_speed, _, _ = fall.unit.speed(steps.end).partition(" ")
    speeds = f"{last_speed} against {fall.unit.speed(steps.start.value)}"
    text = f"{fall.workload}: {last_against_first(run, fall)}: {total}, {speeds}"
    # A step with another name has a further change, which was not measured by itself.
    if last.name == REMOVED and last.change.verdict != Verdict.OTHER_SAMPLES:
        text += f"; removing the GIL by itself: {outcome(metric, last.change)}"
    for step in steps.further:
        text += f"; with {step.name}: {outcome(metric, step.change)}"
    return text + "."
