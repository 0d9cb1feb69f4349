"""The view of a merge: all that its page, its summary and the terminal show, in words."""

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ftbench.document.convert import as_json
from ftbench.document.model import Change
from ftbench.merge.agreement import FEWEST_OF_KIND
from ftbench.merge.collect import listed
from ftbench.merge.model import Agreement, Group, MachineKind, Merged, Outlier, Step
from ftbench.plan.metrics import METRICS
from ftbench.report import run_words, waterfalls
from ftbench.report.draw import Chart
from ftbench.report.tables import Table
from ftbench.report.verdict_words import (
    NEXT_TO_FACTORS,
    directed,
    distance,
    figure,
    in_factors,
    outcome,
)
from ftbench.stats.hours import USUAL
from ftbench.stats.outliers import FEWEST

THROUGHPUT = METRICS["throughput"]
# The most kinds of machine whose waterfalls are shown, and the most differences of settings.
MOST_KINDS, MOST_DIFFERENCES = 12, 4
METHOD = (
    "Each run counts as one machine, the machines of a kind give its mean, and the kinds, each "
    "counted once, the mean of all. Kinds of two machines or more differ if Welch's test says so; "
    "they agree if, at 95%, no two are more than 10% apart. An outlier is more than 5% from the "
    f"others of its kind, and too far for chance; that takes {FEWEST} machines. Outliers stay in "
    "the means. Machines are given as their runs measured them. docs/method.md has all of it."
)
AGREEMENTS: dict[Agreement, str] = {
    "differs": "It depends on the kind of machine: from {low} to {high}.",
    "agrees": "The kinds of machine agree: no two are more than {apart} apart.",
    "undecided": (
        "Whether the kinds of machine differ cannot be told: if they do, by at most {apart}."
    ),
    "too few machines": "From {low} to {high}. Whether the kind makes the difference cannot be "
    f"told: that takes at least {FEWEST_OF_KIND} machines of each of two kinds.",
}


@dataclass(frozen=True)
class GroupView:
    """One group of runs: the answer, and its figures."""

    title: str
    answer: str
    remarks: list[str]
    outliers: list[str]
    kinds: Table
    steps: Table
    """The steps, with the mean and the agreement of the kinds; without rows for one kind."""
    waterfalls: list[Chart]
    """One for each kind of machine, up to MOST_KINDS."""
    machines: Table

    @property
    def tables(self) -> list[tuple[str, Table]]:
        """Pairs (title, table) of the kinds, the steps and the waterfalls."""
        pairs = [(f"{self.title}: kinds of machine", self.kinds)]
        if self.steps.rows:
            pairs.append((f"{self.title}: agreement of the kinds", self.steps))
        return pairs + [(chart.title, chart.table) for chart in self.waterfalls]


@dataclass(frozen=True)
class View:
    """All that the outputs of a merge show."""

    title: str
    """The numbers of machines and of kinds: "3 machines of 2 kinds"."""
    configurations: dict[str, str]
    """{short name of a configuration: its meaning}"""
    groups: list[GroupView]
    not_merged: list[str]
    notes: list[str]
    document: bytes
    """The content of merged.json."""
    method: str = METHOD
    page: Path | None = None
    """The page's path, once it is written."""


def view(merged: Merged) -> View:
    """Return the view of a merge."""
    document = json.dumps(as_json(merged), indent=1, allow_nan=False)
    return View(
        title=_title(merged),
        configurations=run_words.configurations(_configurations(merged)),
        groups=[_group(number, group) for number, group in enumerate(merged.groups)],
        not_merged=_not_merged(merged),
        notes=merged.notes,
        document=f"{document}\n".encode(),
    )


def _title(merged: Merged) -> str:
    runs: set[str] = set()
    kinds: set[str] = set()
    for group in merged.groups:
        runs.update(group.runs)
        kinds.update(kind.name for kind in group.kinds)
    return f"{_machines(len(runs))} of {run_words.count(len(kinds), 'kind')}"


def _not_merged(merged: Merged) -> list[str]:
    """Return a line for each run, or part of a run, that is left out or set apart."""
    lines = []
    for skipped in merged.left_out:
        lines.append(f"left out: {skipped.what}: {skipped.why}")
    for group in merged.apart:
        why = listed(group.differences, "; ", MOST_DIFFERENCES)
        lines.append(f"{listed(group.runs)}: {group.workload} is set apart: {why}.")
    return lines


def _configurations(merged: Merged) -> set[str]:
    """Return the names of the configurations in the waterfalls."""
    names = set()
    for kind in itertools.chain.from_iterable(group.kinds for group in merged.groups):
        names |= {key.split("/")[0] for key in kind.waterfall.throughput.candidates}
    return names


def _machines(number: int) -> str:
    return run_words.count(number, "machine")


def _group(number: int, group: Group) -> GroupView:
    title = run_words.opening(group.kinds[0].waterfall.unit, group.workload)
    charts = []
    for place, kind in enumerate(group.kinds[:MOST_KINDS]):
        charts.append(_waterfall(f"{number}-{place}", kind))
    return GroupView(
        title=title,
        answer=f"{title}: {group.candidates}: {_answer(group)}.",
        remarks=[*_agreement(group), _hours(group)],
        outliers=_outliers(group),
        kinds=_kinds(group.kinds),
        steps=_steps(group.steps),
        waterfalls=charts,
        machines=_table_of_machines(group),
    )


def _answer(group: Group) -> str:
    """Return the effect of the whole waterfall: of each kind, or on average over three or more."""
    mean = group.total.mean
    if mean and len(group.kinds) > 2:
        number = f"{len(group.kinds)} kinds of machine ({_machines(len(group.machines))})"
        return f"{outcome(THROUGHPUT, mean)} on average over {number}"
    factors = in_factors(kind.total for kind in group.kinds)
    effects = []
    for kind in group.kinds:
        effect = outcome(THROUGHPUT, kind.total, factors)
        effects.append(f"{effect} on {_machines(kind.number)} with {kind.name}")
    return ", and ".join(effects)


def _agreement(group: Group) -> list[str]:
    """Return sentences on whether the whole effect differs between kinds; none for one kind."""
    total = group.total
    if total.agreement == "one kind":
        return []
    compared = group.kinds
    if total.agreement != "too few machines":
        compared = [kind for kind in group.kinds if kind.number >= FEWEST_OF_KIND]
    slowest_first = sorted(compared, key=lambda kind: kind.total.ratio)
    slowest, fastest = slowest_first[0], slowest_first[-1]
    factors = in_factors([slowest.total.ratio, fastest.total.ratio])
    words = AGREEMENTS[total.agreement].format(
        low=_effect(slowest, factors),
        high=_effect(fastest, factors),
        apart=distance(total.apart or 1),
    )
    texts = [words]
    single = len(group.kinds) - len(compared)
    if single:
        texts.append(f"Kinds of one machine, which have no part in this: {single}.")
    if total.expected:
        factors = in_factors(total.expected)
        low, high = (directed(THROUGHPUT, ratio, factors) for ratio in total.expected)
        expected = f"{low} to {high}"
        texts.append(f"On one more kind of machine, expect roughly {expected}.")
    return texts


def _effect(kind: MachineKind, factors: bool) -> str:
    return f"{directed(THROUGHPUT, kind.total.ratio, factors)} on {kind.name}"


def _hours(group: Group) -> str:
    source = "assumed"
    if group.runs_of_hours:
        usual = f"the usual {100 * USUAL:.0f}%"
        source = f"from {group.runs_of_hours} runs at several hours and {usual}"
    deviation = f"a standard deviation of {100 * group.hours:.1f}% ({source})"
    return f"A machine's interval allows for what hours do: {deviation}."


def _outliers(group: Group) -> list[str]:
    """Return a sentence on each outlier: "node17 is 22% slower than its kind (...)"."""
    alike = Counter((outlier.kind, outlier.what) for outlier in group.outliers)
    sizes = {kind.name: kind.number for kind in group.kinds}
    texts = []
    for outlier in group.outliers:
        usual = sizes[outlier.kind] - alike[outlier.kind, outlier.what]
        rest = f"the other {usual} are within {distance(outlier.others)} of their mean"
        text = f"is {directed(THROUGHPUT, outlier.ratio)} than its kind in {group.workload}"
        if outlier.what == "total":
            text = _other_gain(group, outlier)
        texts.append(f"{outlier.run} {text} ({rest}).")
    return texts


def _other_gain(group: Group, outlier: Outlier) -> str:
    """Return in words that the whole waterfall's effect is another on an outlier."""
    total = group.machine(outlier.run).total.ratio
    usual = total / outlier.ratio
    factors = in_factors([total, usual])
    return (
        f"gains otherwise than its kind in {group.workload}: {group.candidates} are "
        f"{directed(THROUGHPUT, total, factors)}, and on average "
        f"{directed(THROUGHPUT, usual, factors)}"
    )


def _kinds(kinds: Sequence[MachineKind]) -> Table:
    rows, unit = [], kinds[0].waterfall.unit
    factors = in_factors(kind.total for kind in kinds)
    for kind in kinds:
        steps = kind.waterfall.throughput
        first, last = map(unit.figure, (steps.start.value, steps.end))
        workers, effect = str(kind.waterfall.workers), outcome(THROUGHPUT, steps.total, factors)
        rows.append((kind.name, str(kind.number), workers, first, last, effect))
    head = ("kind of machine", "machines", "workers", f"{unit.column}, first", "last", "throughput")
    return Table(head, tuple(rows), frozenset({1, 2, 3, 4}))


def _steps(steps: Sequence[Step]) -> Table:
    means = [step.mean for step in steps if step.mean]
    factors, rows = in_factors(means, NEXT_TO_FACTORS), []
    for step in steps:
        if step.mean:
            words = outcome(THROUGHPUT, step.mean, factors)
            rows.append((step.name, f"x {figure(step.mean.ratio)}", words, step.agreement))
    head = ("what changes", "factor", "throughput, mean of the kinds", "kinds of machine")
    return Table(head, tuple(rows), frozenset({1}))


def _waterfall(place: str, kind: MachineKind) -> Chart:
    """Return the chart of a kind. *place*: of the group and the kind,
    since names may be cut alike.
    """
    title = f"{kind.waterfall.workload}: {kind.name}, {_machines(kind.number)}"
    speeds = [waterfalls.speeds(machine.waterfall) for machine in kind.machines]
    name = f"{place}-{run_words.slug(kind.name)[:60]}"
    return waterfalls.drawn(name, title, kind.waterfall, "machine", [*zip(*speeds, strict=True)])


def _table_of_machines(group: Group) -> Table:
    rows = []
    ratios: list[Change | float] = []
    for machine in group.machines:
        ratios += [machine.total, machine.speed]
    factors = in_factors(ratios)
    for kind in group.kinds:
        for machine in kind.machines:
            speed = directed(THROUGHPUT, machine.speed, factors) if kind.number > 1 else "-"
            effect = outcome(THROUGHPUT, machine.total, factors)
            rows.append((machine.run, kind.name, speed, effect, machine.revision, machine.path))
    head = ("run", "kind of machine", "than its kind", "throughput", "revision", "results")
    return Table(head, tuple(rows), frozenset())
