"""The wording of the benchmark's verdicts: of one ratio, of a scenario, of a waterfall."""

import math
from collections.abc import Sequence

from ftbench.document.model import Change, Scenario, Verdict, Waterfall
from ftbench.plan.metrics import METRICS, Metric
from ftbench.plan.waterfall import REMOVED, TODAY
from ftbench.report import run_words
from ftbench.stats.analysis import AnalysedScenario, Analysis
from ftbench.stats.comparisons import Comparison, level, more_minutes
from ftbench.stats.statistics import negligible
from ftrun.configurations import CONFIGURATIONS

# The most cases that a sentence tells.
MOST_CASES = 5
# The number of metrics that are ratios by themselves and get a sentence: the main one, and one more.
TOLD = 2
NOT_COMPARED = "gave other samples: not compared"
# Differences up to this factor are given in percent, larger ones as factors; the far end of an interval in percent may
# reach a little further, so that both ends are in percent.
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


def interval(comparison: Comparison) -> str:
    """Return a ratio's confidence interval: "1.48 to 1.66", or "-" for a single round."""
    if comparison.low is None or comparison.high is None:
        return "-"
    return f"{figure(comparison.low)} to {figure(comparison.high)}"


def change(ratio: float, most: float = MOST_PERCENT) -> str:
    """Return how far a ratio is from 1, without direction: "57%", or "5.2 times" for more than a factor of *most*."""
    far = max(ratio, 1 / ratio)
    if far > most:
        return f"{times(far)} times"
    part = abs(ratio - 1)
    return f"{100 * part:.1f}%" if part < 0.0095 else f"{100 * part:.0f}%"


def times(far: float) -> str:
    """Format a factor of 1 or more with two or three digits: "1.04", "2.31", "5.2", "92", "more than 1,000"."""
    if far >= MOST_TIMES:
        return f"more than {MOST_TIMES:,}"
    return f"{far:.2f}" if far < 3 else f"{far:.1f}" if far < 9.95 else f"{far:.0f}"


def directed(metric: Metric, ratio: float) -> str:
    """Return a ratio's distance from 1, with the direction: "57% faster", "14% less memory", "92 times later"."""
    return f"{change(ratio)} {metric.above if ratio > 1 else metric.below}"


def span(c: Change) -> str:
    """Return how far an interval's ends are from 1, as `change` does for the ratio: "48% to 66%", "65 to 130"."""
    ends = [max(end, 1 / end) for end in (c.low, c.high) if end]
    if max(c.ratio, 1 / c.ratio) > MOST_PERCENT:
        return " to ".join(map(times, sorted(ends)))
    near, far = sorted((c.low or c.ratio, c.high or c.ratio), key=lambda ratio: abs(math.log(ratio)))
    return f"{change(near)} to {change(far, MOST_PERCENT_END)}"


def outcome(metric: Metric, c: Change) -> str:
    """Return a ratio's verdict in words: "57% faster (48% to 66%)", "between 23% slower and 92% faster"."""
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


def short(comparison: Comparison) -> str:
    """Return a comparison's verdict in the words of its metric: "57% faster (48% to 66%)"; see `outcome`."""
    return outcome(METRICS[comparison.metric], comparison)


def settles(scenario: Scenario, c: Change) -> str | None:
    """Return words for an undecided ratio, such as "5 more minutes would settle it"; None for any other ratio."""
    minutes = more_minutes(scenario, c)
    if minutes == 0:
        return f"in {run_words.rounds(scenario)}, differences below about {change(c.resolution or 1.0)} may be missed"
    return f"{run_words.count(minutes, 'more minute')} would settle it" if minutes else None


def conclusion(scenario: AnalysedScenario, group: Sequence[Comparison]) -> str:
    """Return a sentence on one comparison in one metric; `group` is the comparison in one case or in several cases."""
    c = group[0]
    a, b = c.numerator, c.denominator
    before = f"With {run_words.each_with(scenario, a.workers)}, " if a.workers == b.workers and a.workers else ""
    alike = a.case == b.case
    ours, theirs = (
        run_words.describe(scenario, each, with_workers=a.workers != b.workers, with_case=not alike) for each in (a, b)
    )
    told = sorted(group, key=lambda c: abs(math.log(c.ratio)), reverse=True)[: MOST_CASES if alike else 1]
    about = METRICS[c.metric]
    said, of = list[str](), "" if about.above in ("faster", "more memory") else f"{about.noun} "
    for c in (c for c in group if c in told):
        more = settles(scenario, c) if len(group) == 1 else None
        case = run_words.case_title(scenario, c.numerator.case) if alike else ""
        figures = f"{'' if said else of}{short(c)}{f' ({more})' if more else ''}"
        said.append(": ".join(filter(None, (case, figures))))
    few = f" (the largest differences of {len(group)})" if alike and len(told) < len(group) else ""
    return run_words.capital(f"{before}{ours} against {theirs}{', ' if case else ': '}{'; '.join(said)}{few}.")


def levels(scenario: AnalysedScenario) -> list[str]:
    """Return a sentence for each case and metric, with the mean of every candidate.

    Only metrics that are themselves ratios, such as step_over_max, have sentences: those among the first TOLD metrics
    of the scenario.
    """
    found = []
    for case in dict.fromkeys(c.case for c in scenario.whole):
        for about in (METRICS[name] for name in scenario.metrics[:TOLD] if METRICS[name].ideal == "1"):
            parts: list[str] = []
            for c in (c for c in scenario.whole if c.case == case):
                r, unit = level(scenario, c.key, about.name), "" if parts else f" {about.unit}"
                ends = f" ({about.write(r.low)} to {about.write(r.high)})" if r.low and r.high else ""
                who = run_words.describe(scenario, c, with_case=False)
                parts.append(f"{about.write(r.ratio)}{unit}{ends} with {who}")
            where = run_words.case_title(scenario, case)
            found.append(f"{about.title}{f', {where}' if where else ''}: {', '.join(parts)}.")
    return found


def answer(scenario: AnalysedScenario) -> list[str]:
    """Return sentences that answer the scenario's question: on its main metric, and on others (Metric.answers)."""
    asked = [name for name in scenario.metrics[1:] if METRICS[name].answers]
    main = levels(scenario)[:1] or _compared(scenario, scenario.metrics[0])
    return [*main, *(sentence for name in asked for sentence in _compared(scenario, name))]


def _compared(scenario: AnalysedScenario, metric: str) -> list[str]:
    """Return sentences on the first comparison in *metric* and on each other "headline", in all their cases."""
    groups: dict[tuple, list[Comparison]] = {}
    for c in scenario.principal(metric):
        groups.setdefault((*c.sides, c.numerator.workers, c.denominator.workers), []).append(c)
    first = [*groups][:1]
    return [conclusion(scenario, group) for who, group in groups.items() if who in first or who[0] == "headline"]


def contestants(run: Analysis, fall: Waterfall) -> str:
    """Return the last and the first candidate of a waterfall: "threads without the GIL against torch's DataLoader"."""
    return " against ".join(_ends(run, fall))


def _ends(run: Analysis, fall: Waterfall) -> tuple[str, str]:
    scenario = run.scenario(fall.scenario)
    start = scenario.candidate(fall.start.candidate)
    against = "torch's DataLoader with processes"
    if start.variant != TODAY:
        against = run_words.describe(scenario, start, with_case=False)
    return f"threads {CONFIGURATIONS[scenario.candidate(fall.steps[-1].candidate).config].phrase}", against


def sentence(run: Analysis, fall: Waterfall) -> str:
    """Return a sentence with a waterfall's total effect. If the last step only removes the GIL, add its effect."""
    about, last = METRICS["throughput"], fall.steps[-1]
    who, against = _ends(run, fall)
    if fall.total.verdict == Verdict.OTHER_SAMPLES:
        return f"{fall.workload}: {who} gave other samples than {against}, so their speeds are not compared."
    text = (
        f"{fall.workload}: {who} against {against}: {outcome(about, fall.total)}, "
        f"{about.write(fall.end)} against {about.write(fall.start.value)} samples/s"
    )
    # A step with another name has a further change, which was not measured by itself.
    if last.name == REMOVED and last.verdict != Verdict.OTHER_SAMPLES:
        text += f"; removing the GIL by itself: {outcome(about, last)}"
    return text + "."
