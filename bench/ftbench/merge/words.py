"""The wording of a merge: the answer of each group, where kinds of machine agree or differ, and outliers."""

from ftbench.merge.merging import FEWEST_OF_KIND
from ftbench.merge.model import Effect, Group, Merged, Outlier
from ftbench.plan.metrics import METRICS
from ftbench.report import run_words, verdict_words
from ftbench.report.tables import Table
from ftbench.report.verdict_words import change, directed, outcome
from ftbench.stats.comparisons import CPU
from ftbench.stats.hours import USUAL
from ftbench.stats.outliers import FEWEST

THROUGHPUT = METRICS["throughput"]
# The most machines that a line names, and the most kinds that have a sentence of their own.
MOST_NAMES = 8
METHOD = (
    "Each run counts as one machine. The machines of a kind give its mean, and the kinds, each counted once, the mean "
    "of all: random-effects means (Paule and Mandel) with intervals of Hartung and Knapp. The error of a machine "
    "includes the deviation between its hours. Kinds of two machines or more differ if Welch's test, adjusted for the "
    "number of steps, says so; they agree if, at 95%, no two are more than 10% apart. An "
    "outlier is more than 5% from the other machines of its kind, and too far for chance (generalised ESD test, at 5% "
    "for all kinds together). Outliers are named and stay in the means. Runs are merged if the project, Python, torch "
    "and all that loads or decodes have the same version (with --dataset, all packages), and their work and first "
    "samples are the same."
)


def title(merged: Merged) -> str:
    """Return the numbers of machines and of kinds that were merged: "3 machines of 2 kinds"."""
    there = [(kind.kind, each.run) for group in merged.main for kind in group.kinds for each in kind.machines]
    kinds = len({kind for kind, _ in there})
    return f"{run_words.count(len({run for _, run in there}), 'machine')} of {run_words.count(kinds, 'kind')}"


def answer(group: Group) -> str:
    """Return a sentence with the effect of the whole waterfall and its interval, over all kinds of machine."""
    who = f"{run_words.capital(group.workload)}: {group.contestants}"
    if group.total.mean and len(group.kinds) > 2:
        number = f"{len(group.kinds)} kinds of machine ({group.machines} machines)"
        return f"{who}: {outcome(THROUGHPUT, group.total.mean)} on average over {number}."
    said = [
        f"{outcome(THROUGHPUT, kind.total)} on {_number(len(kind.machines))} with {kind.kind}" for kind in group.kinds
    ]
    return f"{who}: {', and '.join(said)}."


def _number(machines: int) -> str:
    return run_words.count(machines, "machine") if machines > 1 else "one machine"


def heterogeneity(group: Group) -> list[str]:
    """Return sentences on whether the ratios differ between kinds of machine, in total and for each step."""
    if len(group.kinds) == 1:
        return []
    total = group.total
    single = {kind.kind for kind in group.kinds if len(kind.machines) < FEWEST_OF_KIND}
    ratios = sorted(total.kinds.items(), key=lambda item: item[1].ratio)
    if total.agreement == "too few machines":
        ends = [f"{directed(THROUGHPUT, effect.ratio)} on {kind}" for kind, effect in (ratios[0], ratios[-1])]
        found = [
            f"From {' to '.join(ends)}. Whether the kind makes the difference cannot be told: that takes at least "
            f"{FEWEST_OF_KIND} machines of each of two kinds."
        ]
        return found + _expected(group)
    (low, of_low), *_, (high, of_high) = [each for each in ratios if each[0] not in single]
    number = len(group.kinds) - len(single)
    if total.agreement == "differs":
        ends = [f"{directed(THROUGHPUT, of.ratio)} on {kind}" for kind, of in ((low, of_low), (high, of_high))]
        found = [f"It depends on the kind of machine: from {' to '.join(ends)}."]
    elif total.agreement == "agrees":
        found = [f"The {number} kinds of machine agree: no two are more than {change(total.apart or 1)} apart."]
    else:
        most = change(total.apart or 1)
        found = [f"Whether the {number} kinds differ cannot be told: if they do, by at most {most}."]
    if single:
        verb = "has" if len(single) == 1 else "have"
        found.append(f"{run_words.count(len(single), 'kind')} {verb} one machine, and no part in this.")
    found += _expected(group)
    for agreement, words in (("differs", "Steps that differ between kinds"), ("agrees", "Steps on which they agree")):
        if names := [step.name for step in group.steps[:-1] if step.agreement == agreement]:
            found.append(f"{words}: {'; '.join(names)}.")
    return found


def _expected(group: Group) -> list[str]:
    """Return a list of one sentence on one more kind of machine, or an empty list for fewer than three kinds."""
    if not (group.total.mean and group.total.mean.expected):
        return []
    ends = [directed(THROUGHPUT, end) for end in group.total.mean.expected]
    return [f"On one more kind of machine, expect roughly {' to '.join(ends)}."]


def hours(group: Group) -> str:
    """Return a sentence on the deviation between hours that a machine's error includes."""
    source = "assumed"
    if group.runs_of_hours:
        source = f"from {group.runs_of_hours} runs at several hours and the usual {100 * USUAL:.0f}%"
    return (
        f"A machine's interval allows for what hours do: a standard deviation of {100 * group.hours:.1f}% ({source})."
    )


def outlier(group: Group, one: Outlier) -> str:
    """Return a sentence on an outlier: "node17 is 22% slower than its kind (the other 7 are within 3%)"."""
    kind = next(kind for kind in group.kinds if kind.kind == one.kind)
    usual = len(kind.machines) - sum(each.what == one.what and each.kind == one.kind for each in group.outliers)
    others = f"the other {usual} are within {change(one.others)} of their mean"
    if one.what == "speed":
        return f"{one.run} is {directed(THROUGHPUT, one.ratio)} than its kind in {group.workload} ({others})."
    own = next(machine.total for machine in kind.machines if machine.run == one.run)
    return (
        f"{one.run} gains otherwise than its kind in {group.workload}: {group.contestants} are "
        f"{directed(THROUGHPUT, own.ratio)}, and on average {directed(THROUGHPUT, own.ratio / one.ratio)} ({others})."
    )


def ordinary(group: Group) -> list[str]:
    """Return sentences on the kinds of machine without outliers: no machine stands out, or there are too few."""
    found = []
    for kind in group.kinds:
        number = len(kind.machines)
        if number == 1:
            found.append(f"{kind.kind}: one machine of this kind: no outlier can be told.")
        elif number < FEWEST:
            wide = " Two say little of a kind, so its intervals are wide." if number == 2 else ""
            said = f"{number} machines of this kind: an outlier can be told from {FEWEST} on.{wide}"
            found.append(f"{kind.kind}: {said}")
        elif not any(one.kind == kind.kind for one in group.outliers):
            found.append(f"{kind.kind}: none of the {number} machines stands out.")
    more = len(found) - MOST_NAMES
    others = f"{more} more kinds: no machine stands out, or they have too few to tell."
    return found[:MOST_NAMES] + ([others] if more > 0 else [])


def set_apart(group: Group) -> str:
    """Return a line with the runs of a group that was set apart, and its differences from the largest group."""
    names = [machine.run for kind in group.kinds for machine in kind.machines]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"{', '.join(names[:MOST_NAMES])}{more}: {group.workload} is set apart: {'; '.join(group.differences)}."


def waterfalls(group: Group) -> Table:
    """Return a table of the steps in each kind of machine."""
    several = len(group.kinds) > 1
    rows = [
        (name, *([kind.kind] * several), factor(step), outcome(THROUGHPUT, step))
        for name in (each.name for each in group.steps)
        for kind in group.kinds
        for step in [kind.steps.get(name, kind.total)]
    ]
    head = ("what changes", *(["kind of machine"] * several), "factor", "throughput")
    return Table(head, tuple(rows), frozenset({len(head) - 2}))


def kinds(group: Group) -> Table:
    """Return a table of the kinds of machine, with the throughput before and after the whole waterfall."""
    rows = [
        (
            kind.kind,
            str(len(kind.machines)),
            str(kind.workers),
            f"{kind.start_speed:.0f}",
            f"{kind.start_speed * kind.total.ratio:.0f}",
            outcome(METRICS[CPU], kind.cpu).replace(" CPU time", ""),
        )
        for kind in group.kinds
    ]
    head = ("kind of machine", "machines", "workers", "samples/s, first", "last", "CPU time")
    return Table(head, tuple(rows), frozenset({1, 2, 3, 4}))


def machines(group: Group) -> Table:
    """Return a table of the machines, each with its speed relative to its kind and its whole waterfall's effect."""
    rows = [
        (
            machine.run,
            kind.kind,
            "1 of its kind" if len(kind.machines) == 1 else directed(THROUGHPUT, machine.speed),
            f"{machine.start_speed:.0f}",
            outcome(THROUGHPUT, machine.total),
        )
        for kind in group.kinds
        for machine in kind.machines
    ]
    head = ("run", "kind of machine", "than its kind", "samples/s, first", "throughput")
    return Table(head, tuple(rows), frozenset({3}))


def factor(effect: Effect) -> str:
    """Format a ratio: "x 1.57"."""
    return f"x {verdict_words.figure(effect.ratio)}"


def runs(merged: Merged) -> Table:
    """Return a table of the runs that were merged."""
    rows = tuple((run.name, run.kind, run.started, run.revision, run.path) for run in merged.runs)
    return Table(("run", "kind of machine", "started", "revision", "results"), rows, frozenset())
