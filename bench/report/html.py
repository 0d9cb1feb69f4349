"""The page: one file that needs nothing else, rendered from bench/templates/report.html.jinja."""

from __future__ import annotations

import base64
from pathlib import Path

import jinja2

from bench.metrics import METRICS
from bench.report import plot, words
from bench.statistics import NO_DIFFERENCE, TOO_FEW

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"


def page(document: dict) -> bytes:
    """The complete HTML page, UTF-8."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True)
    scenarios = [{
        "data": scenario,
        "pictures": [
            {"uri": _uri(plot.svg(scenario, plot.measured)), "alt": _measured_alt(scenario)},
            {"uri": _uri(plot.svg(scenario, plot.ratios)), "alt": _ratios_alt(scenario)},
        ],
        "verdict": words.verdict(scenario),
        "noise": words.noise(scenario),
        "work": words.work(scenario),
        "metrics": [METRICS[name] for name in scenario["metrics"]],
        "comparisons": [(METRICS[name], words.comparisons(scenario, name)) for name in scenario["metrics"]],
        "titles": {c["key"]: c["title"] for c in scenario["contestants"]},
    } for scenario in document["scenarios"]]
    text = templates.get_template("report.html.jinja").render(
        document=document, scenarios=scenarios, state=words.state(document), builds=words.builds(document),
        machine=words.machine(document), revision=words.revision(document), words=words,
        unclear=(NO_DIFFERENCE, TOO_FEW))
    return text.encode()


def _uri(svg: bytes) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode()


def _measured_alt(scenario: dict) -> str:
    titles = {c["key"]: c["title"] for c in scenario["contestants"] if not c["duplicate"]}
    metric = words.metric(scenario)
    return f"Bar chart of {metric.noun} in {metric.unit}: " + ", ".join(
        f"{titles[c['key']]} {metric.write(c['metrics'][metric.name]['median'])}"
        for c in scenario["analysis"]["contestants"] if c["key"] in titles)


def _ratios_alt(scenario: dict) -> str:
    return f"Ratios of {words.metric(scenario).noun} with their confidence intervals: " + ", ".join(
        f"{c['title'].split(':')[0]} {words.times(c['mean'])} ({c['verdict']})"
        for c in words.pictured(scenario))
