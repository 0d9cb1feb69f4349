"""All statistics of a run, computed once from its rounds, for use by all reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ftbench.document.model import MeasuredScenario, Results, Verdict, Waterfall
from ftbench.plan.metrics import Metric
from ftbench.stats.comparisons import MeasuredComparison, compared, judge
from ftbench.stats.hours import Hours
from ftbench.stats.statistics import Ratio
from ftbench.stats.waterfall import apart, chain, waterfall


@dataclass
class AnalysedScenario:
    """A measured scenario with the comparisons computed from its rounds."""

    record: MeasuredScenario
    """The scenario as in results.json."""
    comparisons: list[MeasuredComparison]

    @property
    def metric(self) -> Metric:
        """The main metric of the scenario: the first of its metrics."""
        return self.record.unit.metric(self.record.metrics[0])

    def compared(self, metric: str = "") -> list[MeasuredComparison]:
        """Return the comparisons in *metric* (default: the main one) whose two candidates loaded
        the same samples.
        """
        name = metric or self.metric.name
        comparisons = []
        for c in self.comparisons:
            if c.metric == name and c.estimate.verdict != Verdict.OTHER_SAMPLES:
                comparisons.append(c)
        return comparisons

    def principal(self, metric: str = "") -> list[MeasuredComparison]:
        """Return the comparisons in *metric* (default: the main one) that matter most.

        These are all comparisons that the run was made for (`asked`). In addition, they are the
        comparisons with the most workers, for each kind (Pair.kind) and each two sides. From these,
        the kind "scaling" is left out if there is another kind, and the kind "method" is left out
        if a headline compares threads with processes.
        """
        comparisons = self.compared(metric)
        implied = _implied(comparisons)
        most: dict[tuple[str, ...], int] = {}
        for c in comparisons:
            most[c.sides] = max(c.numerator.workers, most.get(c.sides, 0))
        principal = []
        for c in comparisons:
            has_most = c.numerator.workers == most[c.sides]
            if c.estimate.asked or (has_most and c.kind not in implied):
                principal.append(c)
        return principal


def _implied(comparisons: Sequence[MeasuredComparison]) -> set[str]:
    """Return the kinds of comparisons that other kinds imply: see AnalysedScenario.principal."""
    kinds = set()
    implied = set()
    for c in comparisons:
        kinds.add(c.kind)
        if c.kind == "headline" and c.numerator.variant != c.denominator.variant != "serial":
            implied.add("method")
    if len(kinds) > 1:
        implied.add("scaling")  # charts show how a candidate scales
    return implied


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

    def scenario(self, name: str) -> MeasuredScenario:
        """Return the scenario of this name, as in results.json."""
        return self.results.by_name[name]

    @property
    def others(self) -> list[AnalysedScenario]:
        """The scenarios without a waterfall."""
        with_waterfall = {fall.scenario for fall in self.waterfalls}
        return [s for s in self.scenarios if s.record.name not in with_waterfall]


def analyse(results: Results) -> Analysis:
    """Compute the comparisons, verdicts and waterfalls of a run;
    return them with the run's results.
    """
    scenarios = [AnalysedScenario(record, compared(record)) for record in results.scenarios]
    estimates: list[Ratio] = []
    for scenario in scenarios:
        estimates += [comparison.estimate for comparison in scenario.comparisons]
    judge(estimates)
    falls: list[Waterfall] = []
    for scenario in scenarios:
        _mark_different(scenario)
        for case in scenario.record.case_names:
            if fall := waterfall(scenario.record, scenario.comparisons, case):
                falls.append(fall)
    return Analysis(results, scenarios, falls)


def _mark_different(scenario: AnalysedScenario) -> None:
    """Set the verdict of comparisons between candidates that loaded different samples."""
    different: set[tuple[str, str]] = set()
    for case in scenario.record.case_names:
        if links := chain(scenario.record, case):
            different |= apart(scenario.record, links.start)
    for c in scenario.comparisons:
        if (c.numerator.key, c.denominator.key) in different:
            c.estimate.verdict = Verdict.OTHER_SAMPLES
