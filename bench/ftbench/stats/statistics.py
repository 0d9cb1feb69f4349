"""Ratios with confidence intervals, and what may be concluded from them.

docs/method.md explains all of it in one page, with its limits; this is what is computed.

A candidate is measured in several processes, one a round, and in each of them many times, in short turns with the
other candidates. Turns of one process may share what is particular to it, so the interval comes from the processes:
each contributes one figure, the mean of the logarithms of the faster half of its turns (`typical`), and two candidates
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
from statistics import fmean, geometric_mean, median, quantiles, stdev
from typing import Annotated

from ftbench.plan.candidates import Pair, Target
from ftbench.plan.metrics import METRICS, Metric
from ftbench.plan.waterfall import STEP, TOTAL

CONFIDENCE = 0.95
# The probability that a difference of `resolution` would have been shown.
POWER = 0.8
FEWEST_ROUNDS = 3
PERCENTILES = (50, 90, 99)
# Memory repeats to a tenth of a percent, and a difference of as little, however certain, is none to people.
NEGLIGIBLE = 1.01

# What the waterfall is of beside the first metric.
WITNESS = "cpu_per_1000"

NO_DIFFERENCE = "no difference shown"
TOO_FEW = "too few rounds"

MET, MISSED, UNCLEAR = "met", "missed", "unclear"


@dataclass(frozen=True)
class Ratio:
    """A ratio's geometric mean over n rounds and its confidence interval (None for n < 2)."""

    # What is said of each field stands in the JSON schema of results.json (ftbench.document.model).
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
    return geometric_mean(sorted(seconds)[: (len(seconds) + 1) // 2])


def logarithms(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """The logarithms of the ratios of pairs; raises ValueError for none, unequal lengths or what is not positive."""
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError("ratio() needs as many numerators as denominators, and at least one")
    if min(*numerators, *denominators) <= 0:
        raise ValueError("ratio() needs positive measurements")
    ratios = [a / b for a, b in zip(numerators, denominators, strict=True)]
    if not all(0 < each < math.inf for each in ratios):
        raise ValueError("no float holds these ratios")
    return [math.log(each) for each in ratios]


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Ratio:
    """Summarise the ratios of paired positive measurements; raises ValueError as `logarithms` does."""
    logs = logarithms(numerators, denominators)
    n, mean = len(logs), fmean(logs)
    if n == 1:
        return Ratio(math.exp(mean), None, None, 1)
    # The import costs more than the rest of this module; most of what imports it only wants names.
    from scipy.special import stdtr, stdtrit

    error = stdev(logs) / math.sqrt(n)
    quantile = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))
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


def spread(values: Sequence[float]) -> dict:
    """The median and the ends of a candidate's rounds."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def distributions(rounds: Sequence[Mapping[str, dict]]) -> dict:
    """Percentiles of a candidate's distributions: of each round its own, then their median, min and max.

    Curves, whose values follow something, have none. Values of one trial are not independent of each other (a
    slow second slows many steps), so that only the rounds tell how certain a percentile is. `rounds` holds the
    distributions of the candidate's trials.
    """
    found = {}
    for name in dict.fromkeys(name for of in rounds for name in of):
        having = [of[name] for of in rounds if name in of]
        if "over" in having[0]:
            continue
        cuts = [quantiles(of["values"], n=100, method="inclusive") for of in having]
        found[name] = {
            "unit": having[0]["unit"],
            "values": sum(len(of["values"]) for of in having),
            "percentiles": {f"{p}": spread([of[p - 1] for of in cuts]) for p in PERCENTILES},
        }
    return found


def analyse(
    measured: Mapping[str, Mapping[str, Sequence[float]]],
    pairs: Sequence[Pair],
    trials: Mapping[str, Sequence[Mapping]] | None = None,
) -> dict:
    """Summarise a scenario's rounds.

    `measured[metric][key]` holds a candidate's values, one per finished round, in the rounds'
    order; targets are of the first metric. `trials[key]` are the candidate's distributions by round.
    Returns {"candidates": [...], "comparisons": [...]}, as ftbench.document.model describes them. Verdicts are
    those of the scenario alone: `adjust` makes those of a run.
    """
    first = next(iter(measured))
    comparisons = []
    for metric, values in measured.items():
        for pair in pairs:
            if pair.first_only and metric != first:
                continue
            r = ratio(values[pair.numerator], values[pair.denominator])
            target = pair.target if metric == first else None
            comparisons.append(
                {
                    "kind": pair.kind,
                    "title": pair.title,
                    "asked": pair.asked and (metric == first or metric == WITNESS and pair.kind in (STEP, TOTAL)),
                    "numerator": pair.numerator,
                    "denominator": pair.denominator,
                    "metric": metric,
                    **asdict(r),
                    "target": target and {**asdict(target), "verdict": reached(r, target)},
                }
            )
    candidates = [
        {
            "key": key,
            "n": len(rounds),
            "metrics": {metric: spread(values[key]) for metric, values in measured.items()},
            "distributions": distributions(trials[key]) if trials else {},
        }
        for key, rounds in measured[first].items()
    ]
    found = {"candidates": candidates, "comparisons": comparisons}
    adjust([found])
    return found


def adjust(analyses: Iterable[dict]) -> None:
    """Write the adjusted p-values (q) of all comparisons of these analyses, and the verdicts with them.

    What was asked keeps its own p-value; explored comparisons are adjusted together, but for those of fewer than
    FEWEST_ROUNDS rounds, which show nothing anyway.
    """
    comparisons = [c for analysis in analyses for c in analysis["comparisons"]]
    explored = [c for c in comparisons if not c["asked"]]
    found = iter(adjusted([c["p"] if c["n"] >= FEWEST_ROUNDS else None for c in explored]))
    for c in comparisons:
        c["q"] = c["p"] if c["asked"] else next(found)
        r = Ratio(c["mean"], c["low"], c["high"], c["n"], c["p"], c["resolution"])
        c["verdict"] = verdict(r, METRICS[c["metric"]], c["q"])
