"""All scenarios in one chart and one table: threads without the GIL against processes with it."""

from __future__ import annotations

from dataclasses import dataclass

from ftbench.report import figures, findings, opening, words
from ftbench.report.chart import Chart
from ftbench.report.tables import Table
from ftbench.stats.statistics import NO_DIFFERENCE, TOO_FEW


@dataclass(frozen=True)
class Glance:
    """A scenario in a line of the list at the top."""

    name: str
    id: str
    question: str
    answer: str
    clear: bool


def glance(document: dict) -> list[Glance]:
    """Every scenario with its question and its most important comparison in words."""
    found = []
    for scenario in document["scenarios"]:
        chosen = words.pictured(scenario)
        answer, clear = "", False
        if chosen:
            c = chosen[0]
            answer = f"{words.title_with_case(scenario, c)}: {words.short(scenario, c)}"
            if scenario["cases"]:
                answer = findings.verdict(scenario)[0]
                chosen = [each for each in chosen if each["kind"] == c["kind"]]
            else:
                chosen = [c]
            clear = any(each["verdict"] not in (NO_DIFFERENCE, TOO_FEW) for each in chosen)
        found.append(
            Glance(
                scenario["name"],
                "scenario-" + words.slug(scenario["name"]),
                scenario.get("question") or scenario["description"],
                answer,
                clear,
            )
        )
    return found


def chart(document: dict) -> Chart | None:
    """Threads without the GIL against processes with it, wherever they met; None if that is in one place at most.

    Ratios are turned so that above 1 the threads are better, also of what should be small.
    """
    found = opening.findings(document, opening.THREADS)
    if len(found) < 2:
        return None
    rows = []
    for finding in found:
        c = finding.comparison
        low, high = finding.interval or (None, None)
        about = words.metric_of(c["metric"])
        rows.append(
            figures.Row(
                f"{finding.where}: {about.noun}",
                finding.advantage,
                low,
                high,
                finding.outcome in ("better", "worse"),
                words.times(finding.advantage),
                f"{finding.where}\n{c['title']}\n{words.short(finding.scenario, c)}",
            )
        )
    alt = "Threads without the GIL against processes with it, above 1 where the threads are better: " + "; ".join(
        f"{f.where} {words.times(f.advantage)} ({f.outcome})" for f in found
    )
    table = Table(
        ("scenario", "quantity", "advantage of threads", "as measured"),
        tuple(
            (
                f.where,
                words.metric_of(f.comparison["metric"]).title,
                words.times(f.advantage),
                words.short(f.scenario, f.comparison),
            )
            for f in found
        ),
        frozenset({2}),
    )
    return Chart(
        "overview",
        "Threads without the GIL against processes with it",
        "Right of 1 the threads are better; lines are 95% confidence intervals. Filled: a difference is shown.",
        alt,
        figures.ratios([("", rows)], "advantage of threads (above 1: better)"),
        table,
    )
