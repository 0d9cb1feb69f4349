"""Ratios with confidence intervals, and what may be concluded from them.

docs/method.md explains all of it in one page, with its limits; this is what is computed.

A contestant is measured in several processes, one a round, and in each of them many times, in short turns with the
other contestants. Turns of one process may share what is particular to it, so the interval comes from the processes:
each contributes one figure, the mean of the logarithms of the faster half of its turns (`typical`), and two contestants
are compared by the differences of their figures, round by round, with Student's t. That treats a/b and b/a alike
(Fleming and Wallace, "How not to lie with statistics", CACM 29, 1986), and ratios of a chain multiply exactly.

`resolution` says what such a run could have seen at all: the smallest true difference that it would have shown in
eight of ten repetitions.

Comparisons that a run is made for are judged one by one. All others are explored: their p-values are adjusted
together, over the whole run (scipy.stats.false_discovery_control; Benjamini and Hochberg, JRSS B 57, 1995), so
that of the differences shown among them at most one in twenty is expected to be none.

A target is met if the whole interval of the ratio lies on its good side, missed if all of it lies
on the other, and unclear if it lies on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from ftbench.plan.contestants import Pair, Target
from ftbench.plan.metrics import METRICS, Metric

CONFIDENCE = 0.95
# The probability that a difference of `resolution` would have been shown.
POWER = 0.8
FEWEST_ROUNDS = 3
PERCENTILES = (50, 90, 99)
# Memory repeats to a tenth of a percent, and a difference of as little, however certain, is none to people.
NEGLIGIBLE = 1.01

NO_DIFFERENCE = "no difference shown"
TOO_FEW = "too few rounds"

MET, MISSED, UNCLEAR = "met", "missed", "unclear"


@dataclass(frozen=True)
class Ratio:
    """A ratio's geometric mean over n rounds and its confidence interval (None for n < 2)."""

    # What is said of each field stands in the JSON schema of results.json (ftbench.document.form).
    mean: Annotated[float, {"exclusiveMinimum": 0}, "geometric mean of the rounds' ratios"]
    low: Annotated[float | None, "lower end of the 95% confidence interval, null for one round"]
    high: Annotated[float | None, "upper end of the interval"]
    n: Annotated[int, {"minimum": 1}, "rounds"]
    p: Annotated[
        float | None, {"minimum": 0, "maximum": 1}, "two-sided p-value of no difference, on its own; null for one round"
    ] = None
    resolution: Annotated[
        float | None,
        {"minimum": 1},
        "the smallest factor that would have been shown in eight of ten such runs (POWER); null for one round",
    ] = None


def typical(seconds: Sequence[float]) -> float:
    """The geometric mean of the faster half of a process's turns (seconds); of at least one positive value.

    What else a machine does makes turns longer and never shorter (Chen and Revels, "Robust benchmarking in noisy
    environments", 2016, https://arxiv.org/abs/1608.04295). The single fastest would be a matter of luck.
    """
    logs = sorted(math.log(each) for each in seconds)
    kept = logs[: (len(logs) + 1) // 2]
    return math.exp(math.fsum(kept) / len(kept))


def logarithms(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """The logarithms of the ratios of paired positive measurements.

    Raises ValueError for no pairs, unequal lengths or values that are not positive.
    """
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError("ratio() needs as many numerators as denominators, and at least one")
    if min(*numerators, *denominators) <= 0:
        raise ValueError("ratio() needs positive measurements")
    return [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]


def variance(values: Sequence[float]) -> float:
    """The sample variance of at least two values."""
    mean = math.fsum(values) / len(values)
    return math.fsum((x - mean) ** 2 for x in values) / (len(values) - 1)


def ratio(numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE) -> Ratio:
    """Summarise the ratios of paired positive measurements; raises ValueError as `logarithms` does."""
    logs = logarithms(numerators, denominators)
    n = len(logs)
    mean = math.fsum(logs) / n
    if n == 1:
        return Ratio(math.exp(mean), None, None, 1)
    # The import costs more than the rest of this module; most of what imports it only wants names.
    from scipy.special import stdtr, stdtrit

    error = math.sqrt(variance(logs) / n)
    quantile = float(stdtrit(n - 1, (1 + confidence) / 2))
    half = quantile * error
    # Rounds that agree to the last digit, in a simulation say, are certain whatever they say.
    p = 2 * float(stdtr(n - 1, -abs(mean) / error)) if error else float(mean == 0)
    # Wild rounds give factors that no float holds; 100 says as much.
    seen = math.exp(min((quantile + float(stdtrit(n - 1, POWER))) * error, math.log(100)))
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, p, seen)


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values for the number of comparisons (Benjamini and Hochberg); None stays None."""
    from scipy.stats import false_discovery_control

    known = [p for p in p_values if p is not None]
    found = iter(false_discovery_control(known, method="bh") if known else ())
    return [None if p is None else float(next(found)) for p in p_values]


def verdict(r: Ratio, metric: Metric, q: float | None = None) -> str:
    """What the ratio shows, in words; `q` is its adjusted p-value (its own if it was asked for)."""
    q = r.p if q is None else q
    if r.n < FEWEST_ROUNDS or r.low is None or r.high is None:
        return TOO_FEW
    certain = (r.low > 1 or r.high < 1) and (q is None or q < 1 - CONFIDENCE)
    if certain and max(r.mean, 1 / r.mean) > NEGLIGIBLE:
        return metric.above if r.mean > 1 else metric.below
    return NO_DIFFERENCE


def reached(r: Ratio, target: Target) -> str:
    """Whether the ratio shows that a target is met."""
    if r.n < FEWEST_ROUNDS or r.low is None or r.high is None:
        return UNCLEAR
    if target.at == "least":
        return MET if r.low >= target.value else MISSED if r.high < target.value else UNCLEAR
    return MET if r.high <= target.value else MISSED if r.low > target.value else UNCLEAR


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which so many percent of the values lie, between two of them linearly."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * percent / 100
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def _summary(values: Sequence[float]) -> dict:
    return {"median": median(values), "min": min(values), "max": max(values)}


def distributions(rounds: Sequence[Mapping[str, dict]]) -> dict:
    """Percentiles of a contestant's distributions: of each round its own, then their median, min and max.

    Curves, whose values follow something, have none. Values of one trial are not independent of each other (a
    slow second slows many steps), so that only the rounds tell how certain a percentile is. `rounds` holds the
    distributions of the contestant's trials.
    """
    found = {}
    for name in dict.fromkeys(name for of in rounds for name in of):
        having = [of[name] for of in rounds if name in of]
        if "over" in having[0]:
            continue
        found[name] = {
            "unit": having[0]["unit"],
            "values": sum(len(of["values"]) for of in having),
            "percentiles": {f"{p}": _summary([percentile(of["values"], p) for of in having]) for p in PERCENTILES},
        }
    return found


def analyse(
    measured: Mapping[str, Mapping[str, Sequence[float]]],
    pairs: Sequence[Pair],
    trials: Mapping[str, Sequence[Mapping]] | None = None,
) -> dict:
    """Summarise a scenario's rounds.

    `measured[metric][key]` holds a contestant's values, one per finished round, in the rounds'
    order; targets are of the first metric. `trials[key]` are the contestant's distributions by round.
    Returns {"contestants": [...], "comparisons": [...]}, as ftbench.document.form describes them. Verdicts are
    those of the scenario alone: `adjust` makes those of a run.
    """
    metrics = [METRICS[name] for name in measured]
    comparisons = []
    for metric in metrics:
        values = measured[metric.name]
        for pair in pairs:
            if pair.metrics is not None and metric.name not in pair.metrics:
                continue
            if pair.first_only and metric is not metrics[0]:
                continue
            r = ratio(values[pair.numerator], values[pair.denominator])
            target = None
            if pair.target is not None and metric is metrics[0]:
                target = {**asdict(pair.target), "verdict": reached(r, pair.target)}
            comparisons.append(
                {
                    "kind": pair.kind,
                    "title": pair.title,
                    "asked": pair.asked and metric is metrics[0],
                    "numerator": pair.numerator,
                    "denominator": pair.denominator,
                    "metric": metric.name,
                    **asdict(r),
                    "q": r.p,
                    "verdict": verdict(r, metric),
                    "target": target,
                }
            )
    contestants = []
    for key, first in measured[metrics[0].name].items():
        contestants.append(
            {
                "key": key,
                "n": len(first),
                "metrics": {metric.name: _summary(measured[metric.name][key]) for metric in metrics},
                "distributions": distributions(trials[key]) if trials else {},
            }
        )
    found = {"contestants": contestants, "comparisons": comparisons}
    adjust([found])
    return found


def adjust(analyses: Iterable[dict]) -> None:
    """Adjust the p-values of all explored comparisons of these analyses together, and their verdicts with them.

    Comparisons of fewer than FEWEST_ROUNDS rounds, which show nothing anyway, do not count.
    """
    explored = [c for analysis in analyses for c in analysis["comparisons"] if not c["asked"]]
    found = adjusted([c["p"] if c["n"] >= FEWEST_ROUNDS else None for c in explored])
    for c, q in zip(explored, found, strict=True):
        c["q"] = q
        r = Ratio(c["mean"], c["low"], c["high"], c["n"], c["p"], c["resolution"])
        c["verdict"] = verdict(r, METRICS[c["metric"]], q)
