"""One kind of machine: the means of its machines, and the machines that stand out."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import NamedTuple

from ftbench.compare.waterfalls import Figure, Figures
from ftbench.document.model import Change, Steps, Verdict
from ftbench.merge.model import Aspect, MachineKind, Outlier
from ftbench.merge.parts import Part
from ftbench.plan.waterfall import IN_ALL, PRECISION
from ftbench.stats.hours import LEAST_ERROR, Deviation, degrees_of_sum
from ftbench.stats.outliers import outliers
from ftbench.stats.random_effects import Mean, random_effects
from ftbench.stats.statistics import exponential, negligible

# Logarithms beyond this are no measurements, and products of their exponentials overflow.
MOST = 300.0


class KindMeans(NamedTuple):
    """A kind of machine, with the means that its waterfall shows."""

    kind: MachineKind
    throughput: dict[str, Mean]
    """{step, or IN_ALL: mean logarithm of its ratio}"""


class MetricMeans:
    """The steps of several machines in one metric, and their means."""

    def __init__(self) -> None:
        self._figures: defaultdict[str, list[Figure]] = defaultdict(list)
        self._starts: list[float] = []
        """Logarithm of each machine's first candidate."""

    def add(self, steps: Steps, figures: Figures) -> None:
        """Add the steps of one machine. *figures*: the logarithms of their ratios."""
        self._starts.append(math.log(steps.start.value))
        for step, figure in figures.items():
            self._figures[step].append(figure)

    def means(self, hours: Mapping[str, Deviation]) -> dict[str, Mean]:
        """Return {step: mean over the machines}. *hours*: what hours do to each step."""
        means = {}
        for step, between_hours in hours.items():
            means[step] = mean_of_machines(self._figures[step], between_hours)
        return means

    def steps(self, form: Steps, means: Mapping[str, Mean]) -> Steps:
        """Return steps like *form* that show these *means*."""
        machines = len(self._starts)
        start = exp(fmean(self._starts))
        total = change(means[IN_ALL], machines)
        steps = []
        for step in form.steps:
            steps.append(replace(step, change=change(means[step.name], machines)))
        return Steps(
            start=replace(form.start, value=start),
            steps=steps,
            total=total,
            end=start * total.ratio,
        )


def kind_means(name: str, parts: Sequence[Part], hours: Mapping[str, Deviation]) -> KindMeans:
    """Return the kind of the machines that measured these *parts*, and its means.

    hours: {step: what hours do to it}
    """
    throughput = MetricMeans()
    cpu = MetricMeans()
    speeds = []
    for part in parts:
        fall = part.measured.waterfall
        throughput.add(fall.throughput, part.measured.throughput)
        cpu.add(fall.cpu_per_1000, part.measured.cpu)
        speeds.append(part.measured.speed)
    usual_speed = fmean(speeds)
    machines = []
    for part in parts:
        speed = exp(part.measured.speed - usual_speed)
        machines.append(replace(part.machine, speed=speed))
    means = throughput.means(hours)
    form = parts[0].measured.waterfall
    waterfall = replace(
        form,
        throughput=throughput.steps(form.throughput, means),
        cpu_per_1000=cpu.steps(form.cpu_per_1000, cpu.means(hours)),
        ends={},
        others=[],
    )
    return KindMeans(MachineKind(name, waterfall, machines), means)


def mean_of_machines(figures: Sequence[Figure], hours: Deviation) -> Mean:
    """Return the mean over one kind's machines, each measured in one of its hours.

    The machines' variances between rounds are pooled into one variance. That of *hours* is added.
    The interval of a single machine is at least as wide as that of its run.
    """
    effects, variances, degrees, rounds, unseen = zip(*figures, strict=True)
    freedom = sum(degrees)
    pooled = math.sumprod(degrees, variances) / freedom
    errors = []
    for number in rounds:
        error = math.sqrt(pooled / number + hours.variance)
        errors.append(max(LEAST_ERROR, error))
    if len(figures) > 1:
        return random_effects(effects, errors)
    within = (pooled / rounds[0], freedom)
    between = (hours.variance, hours.degrees)
    least = min(freedom, degrees_of_sum(within, between))
    return Mean(effects[0], errors[0], least, unseen=unseen[0])


def change(mean: Mean, n: int) -> Change:
    """Return a mean of *n* logarithms as a ratio, with its interval and verdict."""
    ratio = exp(mean.effect)
    (low, high) = map(exp, mean.interval())
    verdict = Verdict.NO_DIFFERENCE
    if not low <= 1 <= high and not negligible(ratio):
        verdict = Verdict.ABOVE if ratio > 1 else Verdict.BELOW
    return Change(ratio=ratio, low=low, high=high, n=n, resolution=None, verdict=verdict)


def outliers_of_kind(kind: str, parts: Sequence[Part], risk: float) -> list[Outlier]:
    """Return the outliers of a kind in speed and in the whole effect. *risk*: of one test."""
    speeds, totals = [], []
    for part in parts:
        speeds.append(part.measured.speed)
        totals.append(part.measured.throughput[IN_ALL].mean)
    aspects: dict[Aspect, list[float]] = {"speed": speeds, "total": totals}
    far_away = []
    for aspect, values in aspects.items():
        positions = _far(values, outliers(values, risk))
        usual = _without(values, positions)
        centre = fmean(usual)
        distance = exp(max(abs(min(usual) - centre), abs(max(usual) - centre)))
        for position in positions:
            name = parts[position].machine.run
            ratio = exp(values[position] - centre)
            far_away.append(Outlier(name, kind, aspect, ratio, distance))
    return far_away


def _far(values: Sequence[float], unlikely: Collection[int]) -> list[int]:
    """Return those positions of *unlikely* values whose distance from the others matters."""
    centre = fmean(_without(values, unlikely))
    least = math.log1p(PRECISION)
    return [position for position in unlikely if abs(values[position] - centre) > least]


def _without(values: Sequence[float], positions: Collection[int]) -> list[float]:
    return [value for at, value in enumerate(values) if at not in positions]


def exp(logarithm: float) -> float:
    """Return exp(logarithm), limited to what measurements may be."""
    return exponential(logarithm, MOST)
