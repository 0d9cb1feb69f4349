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
    total = hours[IN_ALL]
    if total.runs < FEWEST:
        few = "One hour only" if total.runs == 1 else f"{total.runs} runs only"
        return [
            (
                f"{few}: run it again at other hours ({SET}); another hour may lie outside of this "
                f"interval."
            )
        ]
    clauses = [f"As factors, at other hours: {_steps(fall.throughput.total, total)}"]
    last = fall.throughput.steps[-1]
    if last.name == REMOVED and last.name in hours:
        clauses.append(f"removing the GIL by itself: {_steps(last.change, hours[last.name])}")
    return [f"{'. '.join(map(run_words.capital, clauses))}."]


def _steps(change: Change, hours: Hours) -> str:
    """Return a ratio in this run, in all runs, and as it is expected in another run."""
    this_run = figure(change.ratio)
    if change.low and change.high:
        this_run += f" ({figure(change.low)} to {figure(change.high)})"
    low, high = hours.expected or (hours.lowest, hours.highest)
    another = "another hour" if hours.seconds >= HOUR else "another run soon after"
    return (
        f"this run {this_run}; {hours.runs} runs in {span(hours.seconds)}: {figure(hours.lowest)} "
        f"to {figure(hours.highest)}; {another}: {figure(low)} to {figure(high)}"
    )


def span(seconds: float) -> str:
    """Return a time in words: "40 minutes", "5 hours", "4 days"."""
    for unit, length in (("day", 24 * HOUR), ("hour", HOUR)):
        if seconds >= 2 * length - length / 2:
            return run_words.count(round(seconds / length), unit)
    return run_words.count(max(1, round(seconds / 60)), "minute")


def one_hour(run: Analysis) -> bool:
    """True if a waterfall of the run has too few runs at other hours."""
    return any(steps[IN_ALL].runs < FEWEST for steps in run.hours.values())
