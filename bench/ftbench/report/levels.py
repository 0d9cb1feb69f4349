"""Sentences about metrics that are ratios by themselves, such as the time of a step while loading over that alone."""

from ftbench.plan.metrics import METRICS
from ftbench.report import run_words
from ftbench.stats.analysis import AnalysedScenario
from ftbench.stats.comparisons import level

# The number of metrics that get a sentence: the main one, and one more.
TOLD = 2


def levels(scenario: AnalysedScenario) -> list[str]:
    """Return a sentence for each case and metric, with the value and interval of every candidate; else []."""
    cases = dict.fromkeys(c.case for c in scenario.whole)
    found = []
    for case in cases:
        for about in (METRICS[name] for name in scenario.metrics[:TOLD]):
            if about.ideal != "1":
                continue
            parts, unit = [], f" {about.unit}"
            for c in (c for c in scenario.whole if c.case == case):
                r = level(scenario, c.key, about.name)
                ends = f" ({about.write(r.low)} to {about.write(r.high)})" if r.low and r.high else ""
                parts.append(
                    f"{about.write(r.ratio)}{unit}{ends} with {run_words.describe(scenario, c, with_case=False)}"
                )
                unit = ""
            where = run_words.case_title(scenario, case)
            found.append(f"{about.title}{f', {where}' if where else ''}: {', '.join(parts)}.")
    return found
