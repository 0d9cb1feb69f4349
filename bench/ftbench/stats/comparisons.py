"""Comparisons of candidates: ratios, and verdicts that allow
for the number of comparisons in the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ftbench.document.model import Change, MeasuredScenario, Verdict
from ftbench.plan.candidates import Candidate, Pair
from ftbench.plan.metrics import METRICS
from ftbench.plan.waterfall import STEP, TOTAL
from ftbench.stats import turns
from ftbench.stats.statistics import FEWEST_ROUNDS, Ratio, negligible, ratio, verdict

# A run of more than this many times the rounds is no useful advice.
MOST_MORE = 10
# A run of more than a day is no useful advice, either.
MOST_MINUTES = 24 * 60
CPU = "cpu_per_1000"
"""CPU time per 1,000 samples: the metric that a waterfall has in addition to throughput."""


@dataclass(kw_only=True)
class MeasuredComparison:
    """The comparison of two candidates in one metric."""

    estimate: Ratio
    """The ratio of numerator and denominator."""
    kind: str
    """Kind of comparison, such as "headline": see ftbench.plan.candidates.Pair."""
    why: str
    numerator: Candidate
    denominator: Candidate
    metric: str

    @property
    def sides(self) -> tuple[str, ...]:
        """The kind, and of both candidates configuration and variant: equal for all numbers of
        workers and cases.
        """
        a, b = self.numerator, self.denominator
        return self.kind, a.config, a.variant, b.config, b.variant

    @property
    def advantage(self) -> tuple[float, float | None, float | None]:
        """(ratio, low, high), inverted if lower values are better:
        above 1, the numerator is the better candidate.
        """
        if METRICS[self.metric].best == "higher":
            return self.estimate.ratio, self.estimate.low, self.estimate.high
        low, high = self.estimate.low, self.estimate.high
        return 1 / self.estimate.ratio, high and 1 / high, low and 1 / low


def of_two(scenario: MeasuredScenario, numerator: str, denominator: str, metric: str) -> Ratio:
    """Return the ratio of two candidates (keys) in a metric, with its interval over the rounds."""
    return ratio(
        scenario.in_each_process(numerator, metric),
        scenario.in_each_process(denominator, metric),
        turns.predicted(scenario, metric, numerator, denominator),
    )


def compared(scenario: MeasuredScenario) -> list[MeasuredComparison]:
    """Return a scenario's comparisons, those in its main metric first. Their verdicts are not
    final: see `judge`.
    """
    comparisons = []
    for metric in scenario.metrics:
        for pair in scenario.pairs:
            if metric == scenario.metrics[0] or not pair.first_only:
                comparisons.append(_compare(scenario, pair, metric))
    return comparisons


def _compare(scenario: MeasuredScenario, pair: Pair, metric: str) -> MeasuredComparison:
    estimate = of_two(scenario, pair.numerator, pair.denominator, metric)
    cpu_of_waterfall = metric == CPU and pair.kind in (STEP, TOTAL)
    estimate.asked = pair.asked and (metric == scenario.metrics[0] or cpu_of_waterfall)
    return MeasuredComparison(
        estimate=estimate,
        kind=pair.kind,
        why=pair.why,
        numerator=scenario.candidate(pair.numerator),
        denominator=scenario.candidate(pair.denominator),
        metric=metric,
    )


def level(scenario: MeasuredScenario, key: str, metric: str) -> Ratio:
    """Return a candidate's mean of a metric that is itself a ratio,
    such as step_over_max, with its interval.
    """
    values = scenario.in_each_process(key, metric)
    return ratio(values, [1.0] * len(values), turns.predicted(scenario, metric, key))


def judge(ratios: Iterable[Ratio]) -> None:
    """Set the adjusted p-values (q) and the verdicts of all ratios of a run.

    Ratios that the run was made for (`asked`) keep their p-values. The p-values of all others are
    adjusted together (Benjamini and Hochberg). Ratios of fewer than FEWEST_ROUNDS rounds take no
    part in this, since they cannot show a difference.
    """
    ratios = list(ratios)
    explored: list[Ratio] = []
    for r in ratios:
        r.q = None
        if r.asked:
            r.q = r.p
        elif r.n >= FEWEST_ROUNDS and r.p is not None:
            explored.append(r)
    if explored:
        _adjust(explored)
    for r in ratios:
        r.verdict = verdict(r)


def _adjust(explored: Sequence[Ratio]) -> None:
    """Set the p-values of ratios that the run was not made for, adjusted for their number."""
    from scipy.stats import false_discovery_control

    adjusted = false_discovery_control([r.p for r in explored], method="bh")
    for r, q in zip(explored, adjusted, strict=True):
        r.q = float(q)


def more_minutes(scenario: MeasuredScenario, c: Change, metric: str = "") -> int | None:
    """Estimate the minutes of further rounds that would settle an undecided ratio in *metric*
    (default: the main one).

    Return None for any other ratio, and 0 if settling it would take too long. If the true
    difference is as large as the one seen here, a run that is longer by the returned minutes would
    show it with a probability of 80%.
    """
    if c.verdict != Verdict.NO_DIFFERENCE or c.interval is None or c.resolution is None:
        return None
    low, high = c.interval
    if not low <= 1 <= high or negligible(low, high):
        return None
    resolution = math.log(c.resolution)
    far = abs(math.log(c.ratio))
    times = 1.0
    if metric in ("", scenario.metrics[0]) and (few := turns.too_few_of_all(scenario)):
        # With more turns, the interval is not widened for the rare long ones.
        resolution = resolution - turns.UNSEEN
        times = turns.ENOUGH_TURNS / few
    if far * math.sqrt(MOST_MORE) < resolution:
        return 0
    measured = sum(finished.seconds for finished in scenario.rounds)
    more = (max(times, (resolution / far) ** 2) - 1) * measured / 60
    return max(1, math.ceil(more)) if more <= MOST_MINUTES else 0
