"""The wording of what other hours do to a run's answer."""

from ftbench.document.model import Change, Waterfall
from ftbench.plan.waterfall import IN_ALL, REMOVED
from ftbench.report import run_words
from ftbench.report.verdict_words import figure
from ftbench.stats.analysis import Analysis
from ftbench.stats.hours import FEWEST, Hours

# Options that make a set of runs.
SET = "--again 5 --every 1h"
HOUR = 3600.0


def sentences(run: Analysis, fall: Waterfall) -> list[str]:
    """Return a list of one text on a waterfall at other hours, or an empty list if nothing looked
    for other runs.
    """
    hours = run.hours.get((fall.scenario, fall.case))
    if hours is None:
        return []
    total, last = hours[IN_ALL], fall.throughput.steps[-1]
    if total.runs < FEWEST:
        few = "One hour" if total.runs == 1 else f"{total.runs} runs"
        advice = f"run it again at other hours ({SET})"
        return [f"{few} only: {advice}; another hour may lie outside of this interval."]
    text = f"As factors, at other hours: {_steps(fall.throughput.total, total)}."
    if last.name == REMOVED and last.name in hours:
        text += f" Removing the GIL by itself: {_steps(last.change, hours[last.name])}."
    return [text]


def _steps(change: Change, hours: Hours) -> str:
    """Return a ratio in this run, in all runs, and as it is expected in another run."""
    this_run = figure(change.ratio)
    if change.low and change.high:
        this_run += f" ({_interval(change.low, change.high)})"
    ends = hours.lowest, hours.highest
    expected = hours.expected or ends
    runs = f"{hours.runs} runs in {span(hours.seconds)}: {_interval(*ends)}"
    another = "another hour" if hours.seconds >= HOUR else "another run soon after"
    return f"this run {this_run}; {runs}; {another}: {_interval(*expected)}"


def _interval(low: float, high: float) -> str:
    return f"{figure(low)} to {figure(high)}"


def span(seconds: float) -> str:
    """Return a time in words: "40 minutes", "5 hours", "4 days"."""
    for unit, length in (("day", 24 * HOUR), ("hour", HOUR)):
        if seconds >= 1.5 * length:
            return run_words.count(round(seconds / length), unit)
    return run_words.count(max(1, round(seconds / 60)), "minute")


def one_hour(run: Analysis) -> bool:
    """True if a waterfall of the run has too few runs at other hours."""
    return any(steps[IN_ALL].runs < FEWEST for steps in run.hours.values())
