"""Merging: groups of runs with the same software and work, the waterfall of each kind, and what differs between kinds.

Each machine counts once in its kind's mean, and each kind once in the mean of kinds (ftbench.stats.random_effects).
A machine's error includes what hours do (ftbench.stats.hours): it comes from the other runs in the machine's output
root, or is the usual one. Without it, simulated kinds that are alike were said to differ in 36% of merges.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean

from ftbench.document.history import Entry
from ftbench.document.model import Skipped, Verdict
from ftbench.merge import cautions, collect, earlier
from ftbench.merge.kinds import kinds
from ftbench.merge.measured import Figure, Machine, Measured, measured
from ftbench.merge.model import (
    Agreement,
    Aspect,
    Effect,
    Group,
    KindResult,
    MachineResult,
    Merged,
    Outlier,
    RunRecord,
    StepResult,
)
from ftbench.plan.waterfall import IN_ALL, PRECISION
from ftbench.report import run_words
from ftbench.stats.hours import LEAST_ERROR, Deviation, degrees_of_sum, deviation
from ftbench.stats.outliers import FEWEST, outliers
from ftbench.stats.random_effects import Mean, differ, random_effects
from ftbench.stats.statistics import CONFIDENCE, NEGLIGIBLE, exponential, negligible
from ftrun import host

# Kinds agree if no two of them are further apart than this factor, which is shown as 10%.
CLOSE = 1.105
# Logarithms beyond this are no measurements, and products of their exponentials overflow.
MOST = 300.0
# The most differences between settings that are listed.
MOST_LISTED = 4
# One machine says nothing of others of its kind.
FEWEST_OF_KIND = 2


def merge(named: Sequence[Path]) -> Merged:
    """Merge the runs in the paths *named*; raises WrongPath if a path does not exist or has no runs."""
    result, parts, machines = Merged(), list[Measured](), dict[str, Machine]()
    sets: dict[earlier.Place, list[list[Entry]]] = {}
    for name, path, results, others in collect.runs(named, result.notes):
        if isinstance(results, collect.Unusable):
            result.left_out.append(Skipped(name, str(results)))
            continue
        for part in measured(name, results):
            if isinstance(part, Measured):
                parts.append(part)
                machines[name] = part.machine
            else:
                result.left_out.append(Skipped(name, str(part)))
        if name in machines:
            record = RunRecord(name, host.path(str(path)), "", results.started, run_words.revision(results))
            result.runs.append(record)
        if others > 0:
            for waterfall, alike in earlier.at_all_hours(results, path).items():
                sets.setdefault(waterfall, []).append(alike)
            number = run_words.count(others, "earlier run")
            result.notes.append(
                f"{name}: its latest run is merged, and not its {number}: name each if they are others'"
            )
    result.notes += cautions.cautions(parts)
    of = kinds(machines.values())
    for record in result.runs:
        record.kind = of[machines[record.name]]
    places: dict[tuple[str, str], list[Measured]] = {}
    for part in parts:
        places.setdefault((part.fall.scenario, part.fall.case), []).append(part)
    for place, these in places.items():
        result.groups += _groups(these, of, sets.get(place, []))
    result.groups.sort(key=lambda group: bool(group.differences))
    return result


def _groups(parts: Sequence[Measured], of: Mapping[Machine, str], sets: Sequence[Sequence[Entry]]) -> list[Group]:
    """Return the groups of runs with equal settings, the largest first. Later groups list how they differ from it.

    sets: the runs of one machine at different hours, for each machine that has several.
    """
    by_setting: dict[tuple, list[Measured]] = {}
    for part in sorted(parts, key=lambda part: part.run):
        by_setting.setdefault(part.setting, []).append(part)
    groups: list[Group] = []
    for setting, these in sorted(by_setting.items(), key=lambda item: (-len(item[1]), item[0])):
        against = groups[0].setting if groups else {}
        groups.append(_group(these, of, _differences(dict(setting), against) if groups else [], sets))
    return groups


def _differences(setting: Mapping[str, str], main: Mapping[str, str]) -> list[str]:
    """Return a phrase for each difference of a group's *setting* from *main*, the setting of the largest group."""
    names = [title for title in {**main, **setting} if main.get(title) != setting.get(title)]
    found = [f"{name} is {setting.get(name, 'missing')}, not {main.get(name, 'missing')}" for name in names]
    more = len(found) - MOST_LISTED
    return found[:MOST_LISTED] + ([f"and {run_words.count(more, 'more difference')}"] if more > 0 else [])


def _group(
    parts: Sequence[Measured], of: Mapping[Machine, str], differences: list[str], sets: Sequence[Sequence[Entry]]
) -> Group:
    hours = {
        step: deviation([[entry.figures[step] for entry in alike if step in entry.figures] for alike in sets])
        for step in (*parts[0].steps, IN_ALL)
    }
    by_kind: dict[str, list[Measured]] = {}
    for part in parts:
        by_kind.setdefault(of[part.machine], []).append(part)
    ordered = sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0]))
    tests = 2 * sum(len(these) >= FEWEST for _, these in ordered)
    found, far, means = list[KindResult](), list[Outlier](), dict[str, dict[str, Mean]]()
    for name, these in ordered:
        here = {step: [part.steps[step] for part in these] for step in parts[0].steps}
        here[IN_ALL] = [part.total for part in these]
        for step, figures in here.items():
            means.setdefault(step, {})[name] = _mean(figures, hours[step])
        kind, outside = _kind(
            name, these, {step: of_kind[name] for step, of_kind in means.items()}, tests, hours[IN_ALL]
        )
        found.append(kind)
        far += outside
    first = parts[0]
    return Group(
        first.fall.workload,
        first.fall.start.name,
        [*first.sides],
        first.contestants,
        dict(first.setting),
        differences,
        found,
        _steps(means, {kind.kind: len(kind.machines) for kind in found}),
        far,
        hours[IN_ALL].sigma,
        hours[IN_ALL].runs,
    )


def _kind(
    name: str, parts: Sequence[Measured], means: Mapping[str, Mean], tests: int, hours: Deviation
) -> tuple[KindResult, list[Outlier]]:
    """Return (a kind's waterfall, from the *means* of its steps; the kind's outliers).

    *tests* is the number of tests for outliers in the group. Each test gets an equal part of the 5% risk of an error.
    *hours*: the deviation of the whole waterfall's effect between hours.
    """
    speed = fmean(part.speed.mean for part in parts)
    steps = {step: effect(mean, len(parts)) for step, mean in means.items()}
    found = []
    figures: dict[Aspect, list[float]] = {
        "speed": [part.speed.mean for part in parts],
        "total": [part.total.mean for part in parts],
    }
    for what, values in figures.items():
        unlikely = outliers(values, (1 - CONFIDENCE) / max(1, tests))
        centre = fmean(value for at, value in enumerate(values) if at not in unlikely)
        far = [at for at in unlikely if abs(values[at] - centre) > math.log1p(PRECISION)]
        usual = [value for at, value in enumerate(values) if at not in far]
        centre = fmean(usual)
        others = max(abs(value - centre) for value in usual)
        found += [Outlier(parts[at].run, name, what, _exp(values[at] - centre), _exp(others)) for at in far]
    machines = [
        MachineResult(p.run, _exp(p.speed.mean - speed), p.fall.start.value, effect(_mean([p.total], hours), 1))
        for p in parts
    ]
    start = _exp(fmean(math.log(part.fall.start.value) for part in parts))
    total = steps.pop(IN_ALL)
    cpu = effect(_mean([part.cpu for part in parts], hours), len(parts))
    return KindResult(name, parts[0].fall.workers, start, steps, total, cpu, machines), found


def _mean(figures: Sequence[Figure], hours: Deviation) -> Mean:
    """Return the mean over one kind's machines, each measured in one of its hours.

    The machines' variances between rounds are pooled into one variance. That of *hours* is added.
    """
    degrees = sum(figure.degrees for figure in figures)
    spread = sum(figure.degrees * figure.variance for figure in figures) / degrees
    errors = [max(LEAST_ERROR, math.sqrt(spread / figure.rounds + hours.variance)) for figure in figures]
    if len(figures) == 1:
        parts = (spread / figures[0].rounds, degrees), (hours.variance, hours.degrees)
        return Mean(figures[0].mean, errors[0], degrees_of_sum(*parts))
    return random_effects([figure.mean for figure in figures], errors)


def effect(mean: Mean, n: int) -> Effect:
    """Return a mean of *n* logarithms as a ratio, with its interval and verdict."""
    ratio, (low, high) = _exp(mean.effect), map(_exp, mean.interval())
    verdict = Verdict.NO_DIFFERENCE
    if not low <= 1 <= high and not negligible(ratio):
        verdict = Verdict.ABOVE if ratio > 1 else Verdict.BELOW
    expected = [*map(_exp, mean.interval(new=True))] if n > 2 else None
    return Effect(ratio=ratio, low=low, high=high, n=n, resolution=None, verdict=verdict, expected=expected)


def _steps(means: Mapping[str, Mapping[str, Mean]], machines: Mapping[str, int]) -> list[StepResult]:
    """Return the result of each step in all kinds of machine.

    means: {step: {kind: mean of its machines}}
    machines: {kind: number of its machines}. Kinds of fewer than FEWEST_OF_KIND take no part in tests between kinds.
    """
    from scipy.stats import false_discovery_control

    several = len(machines) > 1
    known = {
        step: [mean for kind, mean in of.items() if machines[kind] >= FEWEST_OF_KIND] for step, of in means.items()
    }
    tested = len(next(iter(known.values()))) > 1
    adjusted = false_discovery_control([differ(kinds) for kinds in known.values()]) if tested else ()
    result = []
    for place, (name, of) in enumerate(means.items()):
        effects = {kind: effect(mean, 1) for kind, mean in of.items()}
        if not several:
            result.append(StepResult(name, effects, None, None, None, "one kind"))
            continue
        mean = random_effects([each.effect for each in of.values()], [each.error for each in of.values()])
        if not tested:
            result.append(StepResult(name, effects, effect(mean, len(of)), None, None, "too few machines"))
            continue
        p, apart = float(adjusted[place]), _apart(known[name])
        logs = [kind.effect for kind in known[name]]
        said: Agreement = "agrees" if apart <= CLOSE else "undecided"
        if p < 1 - CONFIDENCE and max(logs) - min(logs) > math.log(NEGLIGIBLE):
            said = "differs"
        result.append(StepResult(name, effects, effect(mean, len(of)), p, apart, said))
    return result


def _apart(means: Iterable[Mean]) -> float:
    """Return a 95% upper bound for the ratio of any two of the means, by Welch's t with Bonferroni's correction."""
    from scipy.special import stdtrit

    pairs, farthest = [*combinations(means, 2)], 0.0
    for a, b in pairs:
        square = a.error**2 + b.error**2
        degrees = square**2 / (a.error**4 / a.degrees + b.error**4 / b.degrees)
        quantile = float(stdtrit(degrees, 1 - (1 - CONFIDENCE) / 2 / len(pairs)))
        farthest = max(farthest, abs(a.effect - b.effect) + quantile * math.sqrt(square))
    return _exp(farthest)


def _exp(logarithm: float) -> float:
    return exponential(logarithm, MOST)
