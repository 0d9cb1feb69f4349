"""The wording of the benchmark's verdicts: of one ratio, of a scenario, of a waterfall."""

import math
from collections.abc import Sequence

from ftbench.document.model import Change, MeasuredScenario, Verdict, Waterfall
from ftbench.plan.metrics import METRICS, Metric
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
# Differences up to this factor are given in percent, larger ones as factors; the far end of an
# interval in percent may reach a little further, so that both ends are in percent.
MOST_PERCENT, MOST_PERCENT_END = 2.0, 3.0
# Two rounds can give intervals over many powers of ten, whose digits say nothing.
MOST_TIMES = 1000
TOO_FEW = "too few rounds to be sure"
UNCERTAIN = "not certain"


def figure(value: float) -> str:
    """Format a ratio: "1.57"; very large and very small ones are shown as bounds: ">100"."""
    # Two rounds can give intervals over many powers of ten, whose digits say nothing.
    if value < 0.1:
        return f"{value:.3f}" if value >= 0.001 else "<0.001"
    return ">100" if value > 100 else f"{value:.2f}"


def interval(comparison: MeasuredComparison) -> str:
    """Return a ratio's confidence interval: "1.48 to 1.66", or "-" for a single round."""
    low, high = comparison.estimate.low, comparison.estimate.high
    if low is None or high is None:
        return "-"
    return f"{figure(low)} to {figure(high)}"


def change(ratio: float, most: float = MOST_PERCENT) -> str:
    """Return how far a ratio is from 1, without direction: "57%", or "5.2 times" for more than a
    factor of *most*.
    """
    far = max(ratio, 1 / ratio)
    if far > most:
        return f"{times(far)} times"
    part = abs(ratio - 1)
    return f"{100 * part:.1f}%" if part < 0.0095 else f"{100 * part:.0f}%"


def times(far: float) -> str:
    """Format a factor of 1 or more with two or three digits: "1.04",
    "2.31", "5.2", "92", "more than 1,000".
    """
    if far >= MOST_TIMES:
        return f"more than {MOST_TIMES:,}"
    return f"{far:.2f}" if far < 3 else f"{far:.1f}" if far < 9.95 else f"{far:.0f}"


def directed(metric: Metric, ratio: float) -> str:
    """Return a ratio's distance from 1, with the direction: "57% faster",
    "14% less memory", "92 times later".
    """
    return f"{change(ratio)} {metric.above if ratio > 1 else metric.below}"


def span(c: Change) -> str:
    """Return how far an interval's ends are from 1, as `change` does for the ratio: "48% to 66%",
    "65 to 130".
    """
    ends = [max(end, 1 / end) for end in (c.low, c.high) if end]
    if max(c.ratio, 1 / c.ratio) > MOST_PERCENT:
        return " to ".join(map(times, sorted(ends)))
    near, far = sorted(
        (c.low or c.ratio, c.high or c.ratio), key=lambda ratio: abs(math.log(ratio))
    )
    return f"{change(near)} to {change(far, MOST_PERCENT_END)}"


def outcome(metric: Metric, c: Change) -> str:
    """Return a ratio's verdict in words: "57% faster (48% to 66%)",
    "between 23% slower and 92% faster".
    """
    if c.verdict == Verdict.OTHER_SAMPLES:
        return NOT_COMPARED
    if c.verdict == Verdict.TOO_FEW or c.low is None or c.high is None:
        return f"{directed(metric, c.ratio)} ({TOO_FEW})"
    low, high = c.low, c.high
    if c.verdict in (Verdict.ABOVE, Verdict.BELOW):
        return f"{directed(metric, c.ratio)} ({span(c)})"
    if low <= 1 <= high and not negligible(low, high):
        return f"between {change(low)} {metric.below} and {change(high)} {metric.above}"
    if negligible(c.ratio):
        return f"the same within {change(max(high, 1 / low))}"
    return f"{directed(metric, c.ratio)} ({span(c)}), {UNCERTAIN}"


def short(comparison: MeasuredComparison) -> str:
    """Return a comparison's verdict in the words of its metric:
    "57% faster (48% to 66%)"; see `outcome`.
    """
    return outcome(METRICS[comparison.metric], comparison.estimate)


def settles(scenario: MeasuredScenario, c: Change, metric: str = "") -> str | None:
    """Return words for an undecided ratio, such as "5 more minutes would settle it";
    None for any other ratio.
    """
    minutes = more_minutes(scenario, c, metric)
    if minutes == 0:
        return (
            f"in {run_words.rounds(scenario)}, differences below about "
            f"{change(c.resolution or 1.0)} may be missed"
        )
    return f"{run_words.count(minutes, 'more minute')} would settle it" if minutes else None


def conclusion(scenario: MeasuredScenario, group: Sequence[MeasuredComparison]) -> str:
    """Return a sentence on one comparison in one metric; `group` is the comparison in one case or
    in several cases.
    """
    first = group[0]
    a, b = first.numerator, first.denominator
    same_workers, same_case = a.workers == b.workers, a.case == b.case
    before = (
        f"With {run_words.each_with(scenario, a.workers)}, " if same_workers and a.workers else ""
    )
    left, right = (
        run_words.describe(
            scenario, candidate, with_workers=not same_workers, with_case=not same_case
        )
        for candidate in (a, b)
    )
    most = MOST_CASES if same_case else 1
    largest = sorted(group, key=lambda c: abs(math.log(c.estimate.ratio)), reverse=True)[:most]
    figures, named_case = _figures(
        scenario, [c for c in group if c in largest], same_case, len(group) == 1
    )
    few = ""
    if same_case and len(largest) < len(group):
        few = f" (the largest differences of {len(group)})"
    separator = ", " if named_case else ": "
    return run_words.capital(f"{before}{left} against {right}{separator}{'; '.join(figures)}{few}.")


def _figures(
    scenario: MeasuredScenario, group: Sequence[MeasuredComparison], with_case: bool, alone: bool
) -> tuple[list[str], bool]:
    """Return (verdicts in words, each with its case; True if the last has a case).

    If *alone*, the words say what would settle an undecided comparison.
    """
    metric, case = METRICS[group[0].metric], ""
    figures: list[str] = []
    for comparison in group:
        words = short(comparison)
        if not figures and metric.above not in ("faster", "more memory"):
            words = f"{metric.noun} {words}"
        more = settles(scenario, comparison.estimate, comparison.metric) if alone else None
        if more:
            words += f" ({more})"
        case = run_words.case_title(scenario, comparison.numerator.case) if with_case else ""
        figures.append(f"{case}: {words}" if case else words)
    return figures, bool(case)


def levels(scenario: MeasuredScenario) -> list[str]:
    """Return a sentence for each case and metric, with the mean of every candidate.

    Only metrics that are themselves ratios, such as step_over_max, have sentences: those among the
    first TOLD metrics of the scenario.
    """
    metrics = [METRICS[name] for name in scenario.metrics[:TOLD]]
    cases = dict.fromkeys(candidate.case for candidate in scenario.whole)
    sentences = []
    for case in cases:
        sentences += [_level(scenario, case, metric) for metric in metrics if metric.ideal == "1"]
    return sentences


def _level(scenario: MeasuredScenario, case: str, metric: Metric) -> str:
    parts: list[str] = []
    for candidate in (candidate for candidate in scenario.whole if candidate.case == case):
        mean = level(scenario, candidate.key, metric.name)
        words = metric.write(mean.ratio)
        if not parts:
            words += f" {metric.unit}"
        if mean.low and mean.high:
            words += f" ({metric.write(mean.low)} to {metric.write(mean.high)})"
        parts.append(f"{words} with {run_words.describe(scenario, candidate, with_case=False)}")
    title = run_words.case_title(scenario, case)
    where = f", {title}" if title else ""
    return f"{metric.title}{where}: {', '.join(parts)}."


def answer(scenario: AnalysedScenario) -> list[str]:
    """Return sentences that answer the scenario's question:
    on its main metric, and on others (Metric.answers).
    """
    metrics = [name for name in scenario.record.metrics[1:] if METRICS[name].answers]
    main = levels(scenario.record)[:1] or _compared(scenario, scenario.metric.name)
    return [*main, *(sentence for name in metrics for sentence in _compared(scenario, name))]


def _compared(scenario: AnalysedScenario, metric: str) -> list[str]:
    """Return sentences on the first comparison in *metric* and on each other "headline",
    in all their cases.
    """
    groups: dict[tuple, list[MeasuredComparison]] = {}
    for c in scenario.principal(metric):
        groups.setdefault((*c.sides, c.numerator.workers, c.denominator.workers), []).append(c)
    first = [*groups][:1]
    return [
        conclusion(scenario.record, group)
        for sides, group in groups.items()
        if sides in first or sides[0] == "headline"
    ]


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
    return f"threads {CONFIGURATIONS[last.config].phrase}", against


def sentence(run: Analysis, fall: Waterfall) -> str:
    """Return a sentence with a waterfall's total effect.
    If the last step only removes the GIL, add its effect.
    """
    about, steps = METRICS["throughput"], fall.throughput
    last = steps.steps[-1]
    last_candidate, against = _ends(run, fall)
    if steps.total.verdict == Verdict.OTHER_SAMPLES:
        return (
            f"{fall.workload}: {last_candidate} gave other samples than {against}, so their "
            f"speeds are not compared."
        )
    text = (
        f"{fall.workload}: {last_candidate} against {against}: {outcome(about, steps.total)}, "
        f"{about.write(steps.end)} against {about.write(steps.start.value)} samples/s"
    )
    # A step with another name has a further change, which was not measured by itself.
    if last.name == REMOVED and last.change.verdict != Verdict.OTHER_SAMPLES:
        text += f"; removing the GIL by itself: {outcome(about, last.change)}"
    return text + "."
