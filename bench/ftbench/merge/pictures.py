"""The charts of a merge: each step in all kinds of machine, and the waterfall of each kind."""

from ftbench.merge import words
from ftbench.merge.model import Effect, Group, KindResult
from ftbench.report import run_words, waterfalls
from ftbench.report.draw import MOST, Chart, Row, Rows
from ftbench.report.verdict_words import outcome

# The most kinds of machine whose waterfalls are drawn, and that are rows of a step.
MOST_KINDS = 12
# The most machines in a tooltip.
MOST_NAMES = 8


def steps(group: Group, number: int) -> Chart:
    """Return a chart with the ratio of each step in each kind of machine, and the mean. *number*: the group's."""
    groups = []
    for step in group.steps:
        shown = [*step.kinds.items()][:MOST_KINDS]
        rows = [_mark(name, of, len(group.kinds[at].machines)) for at, (name, of) in enumerate(shown)]
        if step.mean and len(step.kinds) > 2:
            rows.append(_mark("mean of the kinds", step.mean, None))
        groups.append((step.name, rows))
    return Chart(
        f"steps-{number}",
        run_words.capital(f"{group.workload}: each step in each kind of machine"),
        "Throughput after the change, divided by that before it; lines: 95% confidence intervals. Filled: shown to "
        "differ from 1.",
        Rows(groups, "times the throughput before", ratios=True),
        words.waterfalls(group),
    )


def _mark(name: str, of: Effect, machines: int | None) -> Row:
    said = outcome(words.THROUGHPUT, of)
    label = name if machines is None else f"{name} ({run_words.count(machines, 'machine')})"
    return Row(label, of.ratio, of.low, of.high, f"{label}: {said}", text=words.factor(of), shown=of.shown)


def waterfall(group: Group, kind: KindResult, number: int) -> Chart:
    """Return the waterfall of one kind of machine: bars for the start, each step and the total."""
    value = kind.start_speed
    # (name, value, start of its bar, change)
    chain: list[tuple[str, float, float, Effect | None]] = [(group.start, value, 0.0, None)]
    for name, step in kind.steps.items():
        before, value = value, min(MOST, value * step.ratio)
        chain.append((name, value, before, step))
    chain.append(("in all", min(MOST, kind.start_speed * kind.total.ratio), 0.0, kind.total))
    ends = {
        0: [(machine.run, machine.start_speed) for machine in kind.machines],
        len(chain) - 1: [(machine.run, machine.start_speed * machine.total.ratio) for machine in kind.machines],
    }
    rows, cells = [], []
    for place, (name, value, begin, of) in enumerate(chain):
        said, factor = (outcome(words.THROUGHPUT, of), words.factor(of)) if of else ("", "")
        config, variant = group.sides[min(place, len(group.sides) - 1)].split("/")
        dots = ends.get(place, [])
        hover = ", ".join(f"{run} {speed:.0f}" for run, speed in dots[:MOST_NAMES])
        hover = f"one machine each: {hover} samples/s" if dots else name
        text = " · ".join(filter(None, (factor, f"{value:.0f}/s")))
        speeds = tuple(speed for _, speed in dots)
        rows.append(Row(name, value, None, None, hover, config, variant, said, text, begin, speeds))
        cells.append((name, factor, f"{value:.0f}", said))
    title = f"{group.workload}: {kind.kind}, {run_words.count(len(kind.machines), 'machine')}"
    return waterfalls.drawn(f"{number}-{run_words.slug(kind.kind)[:60]}", title, "machine", rows, cells)
