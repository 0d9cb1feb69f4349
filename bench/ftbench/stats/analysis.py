"""All statistics of a run, computed once from its rounds, for use by all reports."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from ftbench.document.model import Results, Scenario, Verdict, Waterfall
from ftbench.plan.metrics import METRICS, Metric
from ftbench.stats.comparisons import Comparison, compared, judge
from ftbench.stats.hours import Hours
from ftbench.stats.waterfall import apart, chain, waterfall


@dataclass
class AnalysedScenario:
    """A measured scenario with the comparisons computed from its rounds."""

    record: Scenario
    """The scenario as in results.json."""
    comparisons: list[Comparison]

    @property
    def metric(self) -> Metric:
        """The main metric of the scenario: the first of its metrics."""
        return METRICS[self.record.metrics[0]]

    def compared(self, metric: str = "") -> list[Comparison]:
        """Return the comparisons in *metric* (default: the main one) whose two candidates loaded
        the same samples.
        """
        name = metric or self.metric.name
        return [
            c
            for c in self.comparisons
            if c.metric == name and c.estimate.verdict != Verdict.OTHER_SAMPLES
        ]

    def principal(self, metric: str = "") -> list[Comparison]:
        """Return the comparisons in *metric* (default: the main one) that matter most.

        These are all comparisons that the run was made for (`asked`). In addition, they are the
        comparisons with the most workers, for each kind (Pair.kind) and each two sides. From these,
        the kind "scaling" is left out if there is another kind, and the kind "method" is left out
        if a headline compares threads with processes.
        """
        comparisons = self.compared(metric)
        most = {
            c.sides: c.numerator.workers
            for c in sorted(comparisons, key=lambda c: c.numerator.workers)
        }
        # Charts show how a candidate scales.
        implied = {"scaling"} if len({c.kind for c in comparisons}) > 1 else set()
        if any(
            c.kind == "headline" and c.numerator.variant != c.denominator.variant != "serial"
            for c in comparisons
        ):
            implied.add("method")
        return [
            c
            for c in comparisons
            if c.estimate.asked or (c.kind not in implied and c.numerator.workers == most[c.sides])
        ]


@dataclass
class Analysis:
    """The results of a run, with the statistics computed from its rounds."""

    results: Results
    scenarios: list[AnalysedScenario]
    waterfalls: list[Waterfall]
    hours: dict[tuple[str, str], dict[str, Hours]] = field(default_factory=dict)
    """{(scenario, case): {step of the waterfall, or IN_ALL: its ratio at all hours}}; empty if no
    runs were sought.
    """

    def scenario(self, name: str) -> Scenario:
        """Return the scenario of this name, as in results.json."""
        return next(s for s in self.results.scenarios if s.name == name)

    @property
    def others(self) -> list[AnalysedScenario]:
        """The scenarios without a waterfall."""
        shown_as_waterfall = {fall.scenario for fall in self.waterfalls}
        return [s for s in self.scenarios if s.record.name not in shown_as_waterfall]


def analyse(results: Results) -> Analysis:
    """Compute the comparisons, verdicts and waterfalls of a run;
    return them with the run's results.
    """
    scenarios = [AnalysedScenario(record, compared(record)) for record in results.scenarios]
    every = itertools.chain.from_iterable(scenario.comparisons for scenario in scenarios)
    judge(comparison.estimate for comparison in every)
    falls: list[Waterfall] = []
    for scenario in scenarios:
        record, comparisons = scenario.record, scenario.comparisons
        cases = [case.name for case in record.cases] or [""]
        _mark_different(scenario, cases)
        falls += filter(None, (waterfall(record, comparisons, case) for case in cases))
    return Analysis(results, scenarios, falls)


def _mark_different(scenario: AnalysedScenario, cases: list[str]) -> None:
    """Set the verdict of comparisons between candidates that loaded different samples."""
    different: set[tuple[str, str]] = set()
    for case in cases:
        links, _ = chain(scenario.record, case)
        if links:
            different |= apart(scenario.record, links[0][1])
    for c in scenario.comparisons:
        if (c.numerator.key, c.denominator.key) in different:
            c.estimate.verdict = Verdict.OTHER_SAMPLES
