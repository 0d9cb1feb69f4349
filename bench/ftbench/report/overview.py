"""The scenarios of a run that have no waterfall: in a list, and in one chart of threads against processes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ftbench.plan.variants import VARIANTS
from ftbench.report import figures, findings, waterfall, words
from ftbench.report.chart import Chart
from ftbench.report.findings import Finding
from ftbench.report.tables import Table


@dataclass(frozen=True)
class Glance:
    """A scenario in a line of the list at the top."""

    name: str
    id: str
    question: str
    answer: str


def others(document: dict) -> list[dict]:
    """The scenarios without a waterfall."""
    told = {fall["scenario"] for fall in document["waterfalls"]}
    return [scenario for scenario in document["scenarios"] if scenario["name"] not in told]


def sentences(document: dict) -> list[str]:
    """A sentence for each waterfall, and the first conclusion of each scenario without one."""
    found = [waterfall.sentence(document, fall) for fall in document["waterfalls"]]
    return found + [f"{each.name}: {each.answer}" for each in glance(document) if each.answer]


def glance(document: dict) -> list[Glance]:
    """Every scenario without a waterfall, with its question and its most important comparison in words."""
    return [
        Glance(
            scenario["name"],
            "scenario-" + words.slug(scenario["name"]),
            scenario["question"] or scenario["description"],
            next(iter(findings.verdict(scenario)), ""),
        )
        for scenario in others(document)
    ]


def _meetings(scenario: dict) -> Iterator[Finding]:
    """Threads without the GIL against processes with it, by the scenario's metric: the first of each case."""
    found: dict[str, Finding] = {}
    for c in words.comparisons(scenario, scenario["metrics"][0]):
        a, b = (words.contestant(scenario, c[side]) for side in ("numerator", "denominator"))
        processes = b["variant"] in VARIANTS and VARIANTS[b["variant"]].processes
        if processes and (a["config"], b["config"]) == ("ft", "gil") and a["workers"] == b["workers"]:
            if a["case"] == b["case"] and not VARIANTS[a["variant"]].processes:
                found.setdefault(a["case"], Finding(scenario, c))
    yield from found.values()


def chart(document: dict) -> Chart | None:
    """Threads without the GIL against processes with it, wherever they met; None if that is in one place at most.

    Ratios are turned so that above 1 the threads are better, also of what should be small.
    """
    found = [finding for scenario in others(document) for finding in _meetings(scenario)]
    if len(found) < 2:
        return None
    rows, cells = [], []
    for finding in found:
        about, outcome = words.metric_of(finding.comparison["metric"]), finding.result
        factor = words.times(finding.advantage)
        low, high = finding.interval or (None, None)
        rows.append(
            figures.Row(
                f"{finding.where}: {about.noun}",
                finding.advantage,
                low,
                high,
                finding.outcome in ("better", "worse"),
                factor,
                f"{finding.where}\n{finding.comparison['title']}\n{outcome}",
            )
        )
        cells.append((finding.where, about.title, factor, outcome))
    return Chart(
        "overview",
        "Threads without the GIL against processes with it",
        "Right of 1 the threads are better; lines are 95% confidence intervals. Filled: a difference is shown.",
        "Threads without the GIL against processes with it, above 1 where the threads are better: "
        + "; ".join(f"{where} {factor}" for where, _, factor, _ in cells),
        figures.ratios([("", rows)], "advantage of threads (above 1: better)"),
        Table(("scenario", "quantity", "advantage of threads", "as measured"), tuple(cells), frozenset({2})),
    )
