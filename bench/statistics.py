"""Ratios with confidence intervals, the noise floor, and what may be concluded.

Contestants are compared within rounds: what a round's neighbours had in common (a busy
machine, a warm CPU) cancels in the ratio of the two trials. A ratio is summed up by its
geometric mean, with Student's t on its logarithm, which treats a/b and b/a alike
(Fleming and Wallace, "How not to lie with statistics", CACM 29, 1986). Intervals are 95%
each on their own; nothing corrects for their number, which the report says.

The noise floor of a run is a factor: for each A/A pair (the same contestant measured twice
a round) the end of its ratio's confidence interval that lies farther from 1, written as a
factor >= 1, and of these the largest. Two contestants differ, by the verdict, only if
their interval excludes 1 and their ratio lies outside 1/floor to floor.

A target is met if the whole interval of the ratio lies on its good side, missed if all of it lies
on the other, and unclear if it lies on both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from bench.contestants import Pair, Target
from bench.metrics import METRICS, Metric

CONFIDENCE = 0.95
FEWEST_ROUNDS = 3

NO_DIFFERENCE = "no difference shown"
TOO_FEW = "too few rounds"

MET, MISSED, UNCLEAR = "met", "missed", "unclear"


@dataclass(frozen=True)
class Ratio:
    """A ratio's geometric mean over n rounds and its confidence interval (None for n < 2)."""

    mean: float
    low: float | None
    high: float | None
    n: int


def ratio(numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
    """Summarise the ratios of paired positive measurements.

    Raises ValueError for no pairs, unequal lengths or values that are not positive.
    """
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError("ratio() needs as many numerators as denominators, and at least one")
    if min(*numerators, *denominators) <= 0:
        raise ValueError("ratio() needs positive measurements")
    logs = [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]
    n = len(logs)
    mean = math.fsum(logs) / n
    if n == 1:
        return Ratio(math.exp(mean), None, None, 1)
    # The import costs more than the rest of this module; most of what imports it only wants names.
    from scipy.special import stdtrit

    deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in logs) / (n - 1))
    half = float(stdtrit(n - 1, (1 + confidence) / 2)) * deviation / math.sqrt(n)
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n)


def noise_floor(aa_ratios: Sequence[Ratio]) -> float | None:
    """The factor (>= 1) described above; None where no A/A pair has an interval."""
    ends = [end for r in aa_ratios if r.low is not None for end in (r.low, r.high)]
    return max((max(end, 1 / end) for end in ends), default=None)


def verdict(r: Ratio, floor: float | None, metric: Metric) -> str:
    """What the ratio shows, in words."""
    if r.n < FEWEST_ROUNDS or floor is None or r.low is None:
        return TOO_FEW
    excludes_one = r.low > 1 or r.high < 1
    if excludes_one and max(r.mean, 1 / r.mean) > floor:
        return metric.above if r.mean > 1 else metric.below
    return NO_DIFFERENCE


def reached(r: Ratio, target: Target) -> str:
    """Whether the ratio shows that a target is met."""
    if r.n < FEWEST_ROUNDS or r.low is None:
        return UNCLEAR
    if target.at == "least":
        return MET if r.low >= target.value else MISSED if r.high < target.value else UNCLEAR
    return MET if r.high <= target.value else MISSED if r.low > target.value else UNCLEAR


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def analyse(measured: Mapping[str, Mapping[str, Sequence[float]]],
            pairs: Sequence[Pair], aa_pairs: Sequence[Pair]) -> dict:
    """Summarise a scenario's rounds.

    `measured[metric][key]` holds a contestant's values, one per finished round, in the rounds'
    order; targets are of the first metric. Returns {"contestants": [...], "noise_floor":
    {metric: factor or None}, "noise": [...], "comparisons": [...]}, as results.schema.json
    describes them.
    """
    metrics = [METRICS[name] for name in measured]

    def compare(pair: Pair, metric: Metric) -> tuple[Ratio, dict]:
        values = measured[metric.name]
        r = ratio(values[pair.numerator], values[pair.denominator])
        return r, {"kind": pair.kind, "title": pair.title, "numerator": pair.numerator,
                   "denominator": pair.denominator, "metric": metric.name, **asdict(r)}

    noise = [(metric, *compare(pair, metric)) for metric in metrics for pair in aa_pairs]
    floors = {metric.name: noise_floor([r for of, r, _ in noise if of is metric]) for metric in metrics}
    comparisons = []
    for metric in metrics:
        for pair in pairs:
            if pair.metrics is not None and metric.name not in pair.metrics:
                continue
            r, entry = compare(pair, metric)
            target = None
            if pair.target is not None and metric is metrics[0]:
                target = {**asdict(pair.target), "verdict": reached(r, pair.target)}
            comparisons.append({**entry, "verdict": verdict(r, floors[metric.name], metric), "target": target})
    contestants = []
    for key, first in measured[metrics[0].name].items():
        summary = {}
        for metric in metrics:
            values = measured[metric.name][key]
            summary[metric.name] = {"median": median(values), "min": min(values), "max": max(values)}
        contestants.append({"key": key, "n": len(first), "metrics": summary})
    return {"contestants": contestants, "noise_floor": floors, "noise": [entry for _, _, entry in noise],
            "comparisons": comparisons}
