"""The page: one file that needs nothing else, rendered from bench/templates/report.html.jinja."""

from __future__ import annotations

import base64
from pathlib import Path

import jinja2

from bench.report import plot, words
from bench.statistics import METRICS, NO_DIFFERENCE, TOO_FEW

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


def page(document: dict) -> bytes:
    """The complete HTML page, UTF-8."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True)
    scenarios = [{
        "data": scenario,
        "pictures": [
            {"uri": _uri(plot.svg(scenario, plot.throughput)), "alt": _throughput_alt(scenario)},
            {"uri": _uri(plot.svg(scenario, plot.ratios)), "alt": _ratios_alt(scenario)},
        ],
        "verdict": words.verdict(scenario),
        "noise": words.noise(scenario),
        "work": words.work(scenario),
        "comparisons": [(metric, words.comparisons(scenario, metric.name)) for metric in METRICS.values()],
        "titles": {c["key"]: c["title"] for c in scenario["contestants"]},
    } for scenario in document["scenarios"]]
    text = templates.get_template("report.html.jinja").render(
        document=document, scenarios=scenarios, state=words.state(document), builds=words.builds(document),
        machine=words.machine(document), revision=words.revision(document), words=words,
        unclear=(NO_DIFFERENCE, TOO_FEW), metrics=METRICS)
    return text.encode()


def _uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def _throughput_alt(scenario: dict) -> str:
    titles = {c["key"]: c["title"] for c in scenario["contestants"] if not c["duplicate"]}
    return "Bar chart of throughput in samples per second: " + ", ".join(
        f"{titles[c['key']]} {c['throughput']['median']:.0f}"
        for c in scenario["analysis"]["contestants"] if c["key"] in titles)


def _ratios_alt(scenario: dict) -> str:
    return "Ratios of throughput with their confidence intervals: " + ", ".join(
        f"{c['title'].split(':')[0]} {words.times(c['mean'])} ({c['verdict']})"
        for c in words.pictured(scenario))
