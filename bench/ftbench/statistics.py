"""Ratios with confidence intervals, the noise floor, and what may be concluded.

docs/method.md explains all of it in one page, with its limits; this is what is computed.

Contestants are compared within rounds: what a round's neighbours had in common (a busy
machine, a warm CPU) cancels in the ratio of the two trials. A ratio is summed up by its
geometric mean, with Student's t on its logarithm, which treats a/b and b/a alike
(Fleming and Wallace, "How not to lie with statistics", CACM 29, 1986). Three rounds say little
about a comparison's own variance, so the variances of all comparisons of a metric are weighed
together (ftbench.moderation); from BOOTSTRAP_ROUNDS on, a bootstrap interval, which assumes no
distribution, stands beside (scipy.stats.bootstrap, BCa: Efron, JASA 82, 1987). With fewer rounds
it covers the true ratio far less often than it says.

The noise floor of a scenario is a factor: how far from 1 the ratio of an A/A pair (the same contestant
measured twice a round) came out, written as a factor >= 1, and of these the largest; LEAST_FLOOR at the
least. A comparison under a case that has A/A pairs of its own is held against these alone.

Of many comparisons some differ by chance. Their p-values are adjusted together, over all comparisons
of a run (scipy.stats.false_discovery_control; Benjamini and Hochberg, JRSS B 57, 1995): of the
differences that a run shows, at most one in twenty is expected to be none. Two contestants differ,
by the verdict, only if the adjusted p-value is below 0.05, the interval excludes 1 (the bootstrap's
too, where there is one), and the ratio lies outside 1/floor to floor.

A target is met if the whole interval of the ratio lies on its good side, missed if all of it lies
on the other, and unclear if it lies on both.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ftbench.contestants import Pair, Target
from ftbench.metrics import METRICS, Metric
from ftbench.moderation import moderate, variance

CONFIDENCE = 0.95
FEWEST_ROUNDS = 3
# With fewer rounds the bootstrap's interval misses the truth far too often (tests/unit/bench/test_trust.py).
BOOTSTRAP_ROUNDS = 10
RESAMPLES = 2000
PERCENTILES = (50, 90, 99)
# Memory repeats to a tenth of a percent, and a difference of as little, however certain, is none to people.
LEAST_FLOOR = 1.01

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
    p: float | None = None
    """Of no difference, two-sided, on its own (None for n < 2)."""
    bootstrap: tuple[float, float] | None = None
    """The bootstrap's interval, from BOOTSTRAP_ROUNDS on."""


def logarithms(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    """The logarithms of the ratios of paired positive measurements.

    Raises ValueError for no pairs, unequal lengths or values that are not positive.
    """
    if len(numerators) != len(denominators) or not numerators:
        raise ValueError("ratio() needs as many numerators as denominators, and at least one")
    if min(*numerators, *denominators) <= 0:
        raise ValueError("ratio() needs positive measurements")
    return [math.log(a / b) for a, b in zip(numerators, denominators, strict=True)]


def ratio(
    numerators: Sequence[float],
    denominators: Sequence[float],
    confidence: float = CONFIDENCE,
    spread: tuple[float, float] | None = None,
) -> Ratio:
    """Summarise the ratios of paired positive measurements.

    `spread` is a better (variance, degrees of freedom) of the ratio's logarithm than these rounds' own,
    if there is one. Raises ValueError as `logarithms` does.
    """
    logs = logarithms(numerators, denominators)
    n = len(logs)
    mean = math.fsum(logs) / n
    if n == 1:
        return Ratio(math.exp(mean), None, None, 1)
    # The import costs more than the rest of this module; most of what imports it only wants names.
    from scipy.special import stdtr, stdtrit

    of, freedom = spread or (variance(logs), n - 1)
    error = math.sqrt(of / n)
    half = float(stdtrit(freedom, (1 + confidence) / 2)) * error
    # Rounds that agree to the last digit, in a simulation say, are certain whatever they say.
    p = 2 * float(stdtr(freedom, -abs(mean) / error)) if error else float(mean == 0)
    boot = _bootstrap(logs, confidence) if n >= BOOTSTRAP_ROUNDS else None
    return Ratio(math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, p, boot)


def _bootstrap(logs: Sequence[float], confidence: float) -> tuple[float, float] | None:
    """The bias-corrected and accelerated interval of the geometric mean; None if all rounds are equal."""
    import numpy
    from scipy.stats import bootstrap

    if min(logs) == max(logs):
        return None
    # Seeded, so that the same rounds always give the same interval.
    found = bootstrap(
        (numpy.asarray(logs),),
        numpy.mean,
        confidence_level=confidence,
        method="BCa",
        axis=0,
        n_resamples=RESAMPLES,
        rng=numpy.random.default_rng(0),
    ).confidence_interval
    return math.exp(found.low), math.exp(found.high)


def noise_floor(aa_ratios: Sequence[Ratio]) -> float | None:
    """The factor (>= 1) described above; None where no A/A pair has two rounds."""
    apart = [max(r.mean, 1 / r.mean) for r in aa_ratios if r.n > 1]
    return max(LEAST_FLOOR, *apart) if apart else None


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values for the number of comparisons (Benjamini and Hochberg); None stays None."""
    from scipy.stats import false_discovery_control

    known = [p for p in p_values if p is not None]
    found = iter(false_discovery_control(known, method="bh") if known else ())
    return [None if p is None else float(next(found)) for p in p_values]


def verdict(r: Ratio, floor: float | None, metric: Metric, q: float | None = None) -> str:
    """What the ratio shows, in words; `q` is its adjusted p-value (its own if it is the only comparison)."""
    q = r.p if q is None else q
    if r.n < FEWEST_ROUNDS or floor is None or r.low is None or r.high is None:
        return TOO_FEW
    excludes_one = all(low > 1 or high < 1 for low, high in ((r.low, r.high), r.bootstrap or (r.low, r.high)))
    if excludes_one and (q is None or q < 1 - CONFIDENCE) and max(r.mean, 1 / r.mean) > floor:
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
    aa_pairs: Sequence[Pair],
    cases: Mapping[str, str] | None = None,
    trials: Mapping[str, Sequence[Mapping]] | None = None,
) -> dict:
    """Summarise a scenario's rounds.

    `measured[metric][key]` holds a contestant's values, one per finished round, in the rounds'
    order; targets are of the first metric. `cases[key]` is the contestant's case, `trials[key]` its
    distributions by round. Returns {"contestants": [...], "noise_floor": {metric: factor or None},
    "noise": [...], "comparisons": [...]}, as results.schema.json describes them. Verdicts are those of
    the scenario alone: `adjust` makes those of a run.
    """
    metrics = [METRICS[name] for name in measured]
    cases = cases or {}
    noise, comparisons = [], []
    floors: dict[str, float | None] = {}
    for metric in metrics:
        values = measured[metric.name]
        wanted = [
            pair
            for pair in pairs
            if (pair.metrics is None or metric.name in pair.metrics)
            and not (pair.first_only and metric is not metrics[0])
        ]
        every = [*aa_pairs, *wanted]
        spreads = moderate([logarithms(values[p.numerator], values[p.denominator]) for p in every], len(values))
        ratios = [
            ratio(values[p.numerator], values[p.denominator], spread=spread)
            for p, spread in zip(every, spreads, strict=True)
        ]
        aa = list(zip(aa_pairs, ratios, strict=False))
        floors[metric.name] = noise_floor([r for _, r in aa])
        noise += [_entry(pair, metric, r) for pair, r in aa]
        for pair, r in zip(wanted, ratios[len(aa) :], strict=True):
            own = [a for p, a in aa if cases.get(p.numerator) == cases.get(pair.numerator)]
            floor = noise_floor(own) or floors[metric.name]
            target = None
            if pair.target is not None and metric is metrics[0]:
                target = {**asdict(pair.target), "verdict": reached(r, pair.target)}
            comparisons.append(
                {
                    **_entry(pair, metric, r),
                    "noise_floor": floor,
                    "q": r.p,
                    "verdict": verdict(r, floor, metric),
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
    found = {"contestants": contestants, "noise_floor": floors, "noise": noise, "comparisons": comparisons}
    adjust([found])
    return found


def _entry(pair: Pair, metric: Metric, r: Ratio) -> dict:
    return {
        "kind": pair.kind,
        "title": pair.title,
        "numerator": pair.numerator,
        "denominator": pair.denominator,
        "metric": metric.name,
        **asdict(r),
        "bootstrap": list(r.bootstrap) if r.bootstrap else None,
    }


def adjust(analyses: Iterable[dict]) -> None:
    """Adjust the p-values of all comparisons of these analyses together, and their verdicts with them.

    Comparisons of fewer than FEWEST_ROUNDS rounds, which show nothing anyway, do not count.
    """
    every = [c for analysis in analyses for c in analysis["comparisons"]]
    for c, q in zip(every, adjusted([c["p"] if c["n"] >= FEWEST_ROUNDS else None for c in every]), strict=True):
        c["q"] = q
        r = Ratio(c["mean"], c["low"], c["high"], c["n"], c["p"], c["bootstrap"] and tuple(c["bootstrap"]))
        c["verdict"] = verdict(r, c["noise_floor"], METRICS[c["metric"]], q)
