"""Merging: groups of runs with the same software and work,
their kinds of machine, and how these agree.

Each machine counts once in its kind's mean, and each kind once in the mean of kinds
(ftbench.stats.random_effects). A machine's error includes what hours do (ftbench.stats.hours): it
comes from the other runs in the machine's output root, or is the usual one. Without it, simulated
kinds that are alike were said to differ in 36% of merges.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import fmean

from ftbench.compare import earlier
from ftbench.compare.waterfalls import Figure, Figures, Incomparable
from ftbench.document.history import Entry
from ftbench.document.model import Change, Skipped, Steps, Verdict
from ftbench.merge import collect
from ftbench.merge.model import Agreement, Aspect, Group, Kind, Merged, Outlier, Step
from ftbench.merge.parts import Hardware, Part, kinds, notes, parts
from ftbench.plan.waterfall import IN_ALL, PRECISION
from ftbench.report import run_words
from ftbench.stats.hours import LEAST_ERROR, Deviation, degrees_of_sum, deviation
from ftbench.stats.outliers import FEWEST, outliers
from ftbench.stats.random_effects import Mean, differ, random_effects
from ftbench.stats.statistics import CONFIDENCE, NEGLIGIBLE, exponential, negligible

# Kinds agree if no two of them are further apart than this factor, which is shown as 10%.
CLOSE = 1.105
# Logarithms beyond this are no measurements, and products of their exponentials overflow.
MOST = 300.0
# One machine says nothing of others of its kind.
FEWEST_OF_KIND = 2

HourEntries = list[list[Entry]]
"""Entries of one waterfall's runs at different hours, a list for each machine with several runs."""


def merge(named: Sequence[Path]) -> Merged:
    """Merge the runs in the paths *named*; raise WrongPath if a path is missing or has no runs."""
    merged, hours = Merged(), dict[earlier.Place, HourEntries]()
    places: dict[earlier.Place, dict[tuple, list[Part]]] = {}
    for run in collect.runs(named, merged.notes):
        for part in _mergeable(run, merged.left_out):
            settings = places.setdefault(part.place, {})
            settings.setdefault((*part.setting.items(),), []).append(part)
        if run.earlier:
            _add_hours(run, hours)
            number = run_words.count(run.earlier, "earlier run")
            text = f"its latest run is merged, and not its {number}: name each if they are others'"
            merged.notes.append(f"{run.name}: {text}")
    groups = [group for settings in places.values() for group in settings.values()]
    merged.notes += notes(groups)
    names = kinds(part.hardware for group in groups for part in group)
    for place, settings in places.items():
        ordered = sorted(settings.items(), key=lambda item: (-len(item[1]), item[0]))
        results = [_group(group, names, hours.get(place, [])) for _, group in ordered]
        for result in results[1:]:
            result.differences = _differences(result.setting, results[0].setting)
        merged.groups.append(results[0])
        merged.apart += results[1:]
    return merged


def _mergeable(run: collect.Found, left_out: list[Skipped]) -> Iterator[Part]:
    """Yield the parts of a run that can be merged; add the others to *left_out*."""
    for part in parts(run):
        if isinstance(part, Incomparable):
            left_out.append(Skipped(run.name, str(part)))
        else:
            yield part


def _add_hours(run: collect.Found, hours: dict[earlier.Place, HourEntries]) -> None:
    assert not isinstance(run.results, Incomparable), "a run that is left out has no earlier runs"
    for place, entries in earlier.at_all_hours(run.results, run.path).items():
        hours.setdefault(place, []).append(entries)


def _differences(setting: Mapping[str, str], main: Mapping[str, str]) -> list[str]:
    """Return a phrase for each difference of a group's *setting* from that of the main group."""
    titles = [title for title in {**main, **setting} if main.get(title) != setting.get(title)]
    return [
        f"{title} is {setting.get(title, 'missing')}, not {main.get(title, 'missing')}"
        for title in titles
    ]


def _group(group: Sequence[Part], names: Mapping[Hardware, str], entries: HourEntries) -> Group:
    """Return the result of runs with equal settings. *names*: the kinds of machine."""
    hours = {}
    for step in group[0].measured.throughput:
        figures = [[run.figures[step] for run in runs if step in run.figures] for runs in entries]
        hours[step] = deviation(figures)
    by_kind: dict[str, list[Part]] = {}
    for part in sorted(group, key=lambda part: part.machine.run):
        by_kind.setdefault(names[part.hardware], []).append(part)
    tests = 2 * sum(len(machines) >= FEWEST for machines in by_kind.values())
    kinds, far, means = list[Kind](), list[Outlier](), dict[str, dict[str, Mean]]()
    for name, machines in sorted(by_kind.items(), key=lambda item: (-len(item[1]), item[0])):
        of_kind = _means([part.measured.throughput for part in machines], hours)
        cpu = _means([part.measured.cpu for part in machines], hours)
        for step, mean in of_kind.items():
            means.setdefault(step, {})[name] = mean
        kinds.append(_kind(name, machines, of_kind, cpu))
        far += _outliers(name, machines, (1 - CONFIDENCE) / max(1, tests))
    return Group(
        candidates=group[0].candidates,
        setting=group[0].setting,
        differences=[],
        kinds=kinds,
        steps=_steps(means, {kind.name: len(kind.machines) for kind in kinds}),
        outliers=far,
        hours=hours[IN_ALL].sigma,
        runs_of_hours=hours[IN_ALL].runs,
    )


def _means(machines: Sequence[Figures], hours: Mapping[str, Deviation]) -> dict[str, Mean]:
    """Return {step: mean over the machines of one kind}."""
    means = {}
    for step, between_hours in hours.items():
        means[step] = _mean([figures[step] for figures in machines], between_hours)
    return means


def _kind(
    name: str, parts: Sequence[Part], means: Mapping[str, Mean], cpu: Mapping[str, Mean]
) -> Kind:
    speed = fmean(part.measured.speed for part in parts)
    for part in parts:
        part.machine.speed = _exp(part.measured.speed - speed)
    falls = [part.measured.waterfall for part in parts]
    waterfall = replace(
        falls[0],
        throughput=_averaged([fall.throughput for fall in falls], means),
        cpu_per_1000=_averaged([fall.cpu_per_1000 for fall in falls], cpu),
        ends={},
        others=[],
    )
    return Kind(name, waterfall, [part.machine for part in parts])


def _averaged(machines: Sequence[Steps], means: Mapping[str, Mean]) -> Steps:
    """Return the steps of several machines as one, with these *means* of their logarithms."""
    first = machines[0]
    changes = {step: _change(mean, len(machines)) for step, mean in means.items()}
    value = _exp(fmean(math.log(steps.start.value) for steps in machines))
    total = changes.pop(IN_ALL)
    return replace(
        first,
        start=replace(first.start, value=value),
        steps=[replace(step, change=changes[step.name]) for step in first.steps],
        total=total,
        end=value * total.ratio,
    )


def _outliers(kind: str, parts: Sequence[Part], risk: float) -> list[Outlier]:
    """Return the outliers of a kind in speed and in the whole effect. *risk*: of one test."""
    aspects: dict[Aspect, list[float]] = {
        "speed": [part.measured.speed for part in parts],
        "total": [part.measured.throughput[IN_ALL].mean for part in parts],
    }
    far_away = []
    for aspect, values in aspects.items():
        unlikely = outliers(values, risk)
        centre = fmean(value for at, value in enumerate(values) if at not in unlikely)
        far = [at for at in unlikely if abs(values[at] - centre) > math.log1p(PRECISION)]
        usual = [value for at, value in enumerate(values) if at not in far]
        centre = fmean(usual)
        distance = _exp(max(abs(value - centre) for value in usual))
        for at in far:
            name = parts[at].machine.run
            far_away.append(Outlier(name, kind, aspect, _exp(values[at] - centre), distance))
    return far_away


def _mean(figures: Sequence[Figure], hours: Deviation) -> Mean:
    """Return the mean over one kind's machines, each measured in one of its hours.

    The machines' variances between rounds are pooled into one variance. That of *hours* is added.
    """
    degrees = sum(figure.degrees for figure in figures)
    spread = sum(figure.degrees * figure.variance for figure in figures) / degrees
    errors = [
        max(LEAST_ERROR, math.sqrt(spread / figure.rounds + hours.variance)) for figure in figures
    ]
    if len(figures) == 1:
        variances = (spread / figures[0].rounds, degrees), (hours.variance, hours.degrees)
        return Mean(figures[0].mean, errors[0], degrees_of_sum(*variances))
    return random_effects([figure.mean for figure in figures], errors)


def _change(mean: Mean, n: int) -> Change:
    """Return a mean of *n* logarithms as a ratio, with its interval and verdict."""
    ratio, (low, high) = _exp(mean.effect), map(_exp, mean.interval())
    verdict = Verdict.NO_DIFFERENCE
    if not low <= 1 <= high and not negligible(ratio):
        verdict = Verdict.ABOVE if ratio > 1 else Verdict.BELOW
    return Change(ratio=ratio, low=low, high=high, n=n, resolution=None, verdict=verdict)


def _steps(means: Mapping[str, Mapping[str, Mean]], machines: Mapping[str, int]) -> list[Step]:
    """Return the agreement of all kinds of machine on each step.

    means: {step: {kind: mean of its machines}}
    machines: {kind: number of its machines}. Kinds of fewer than FEWEST_OF_KIND take no part in
    tests.
    """
    from scipy.stats import false_discovery_control

    if len(machines) == 1:
        return [Step(name, "one kind") for name in means]
    steps = [_untested(name, [*by_kind.values()]) for name, by_kind in means.items()]
    several = [kind for kind, number in machines.items() if number >= FEWEST_OF_KIND]
    if len(several) > 1:
        tested = [[by_kind[kind] for kind in several] for by_kind in means.values()]
        p_values = false_discovery_control([differ(kinds) for kinds in tested])
        for step, kinds, p in zip(steps, tested, p_values, strict=True):
            step.p, step.apart = float(p), _apart(kinds)
            step.agreement = _agreement(kinds, step.p, step.apart)
    return steps


def _untested(name: str, kinds: Sequence[Mean]) -> Step:
    """Return a step with the mean of all kinds."""
    mean = random_effects([kind.effect for kind in kinds], [kind.error for kind in kinds])
    step = Step(name, "too few machines", _change(mean, len(kinds)))
    if len(kinds) > 2:
        step.expected = [*map(_exp, mean.interval(new=True))]
    return step


def _agreement(kinds: Sequence[Mean], p: float, apart: float) -> Agreement:
    effects = [kind.effect for kind in kinds]
    if p < 1 - CONFIDENCE and max(effects) - min(effects) > math.log(NEGLIGIBLE):
        return "differs"
    return "agrees" if apart <= CLOSE else "undecided"


def _apart(means: Sequence[Mean]) -> float:
    """Return a 95% upper bound for the ratio of any two means (Welch's t, Bonferroni)."""
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
