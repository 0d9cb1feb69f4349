"""The page: one file that needs nothing else, rendered from ftbench/report/templates/report.html.jinja.

What comes from results.json reaches the page in three ways, each made harmless on its own: as text that the
template escapes, as chart texts (ftbench.report.figures.safe), and as JSON without a "<". A content security
policy allows the page's own scripts alone, by their hashes, and no address at all.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from pathlib import Path

import jinja2
import plotly
import plotly.io
from plotly.offline import get_plotlyjs

from ftbench.report import (
    charts,
    figures,
    findings,
    overview,
    repeat,
    safety,
    tables,
    waterfall,
    waterfall_chart,
    words,
)
from ftbench.report.chart import Chart
from ftrun.escape import terminal

TEMPLATES = Path(__file__).resolve().parent / "templates"
# For the page's style sheet and its charts, which cannot read that.
PALETTES = {
    "light": {
        "text": "#1c1e21",
        "back": "#ffffff",
        "soft": "#5a6068",
        "grid": "#e4e7eb",
        "card": "#f5f6f8",
        "strong": "#005a9c",
        "alarm": "#b00020",
        "shown": "#0072B2",
    },
    "dark": {
        "text": "#e6e7e9",
        "back": "#16181b",
        "soft": "#a9b0ba",
        "grid": "#30343a",
        "card": "#202328",
        "strong": "#7cc4ff",
        "alarm": "#ff8a93",
        "shown": "#56B4E9",
    },
}


def page(document: dict) -> bytes:
    """The complete HTML page, UTF-8."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=lambda value: terminal(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scripts = [get_plotlyjs(), (TEMPLATES / "report.js").read_text()]
    text = templates.get_template("report.html.jinja").render(
        document=document,
        scenarios=[_scenario(scenario) for scenario in document["scenarios"]],
        waterfalls=[_waterfall(document, fall) for fall in document["waterfalls"]],
        overview=overview.chart(document),
        glance=overview.glance(document),
        state=words.state(document),
        builds=words.builds(document),
        machine=words.machine(document),
        safety=safety,
        revision=words.revision(document),
        commands=repeat.commands(document),
        words=words,
        style=(TEMPLATES / "report.css").read_text(),
        palettes=PALETTES,
        scripts=scripts,
        policy=_policy(scripts),
        plotly_version=plotly.__version__,
        as_json=as_json,
        figure=functools.partial(_figure, document),
        raw=as_json(document),
        limits=words.limits(document),
    )
    return text.encode()


def _waterfall(document: dict, fall: dict) -> dict:
    """What the template says of a waterfall."""
    advised, code = waterfall.advice(document, fall)
    return {
        "sentence": words.capital(waterfall.sentence(document, fall)),
        "chart": waterfall_chart.chart(document, fall),
        "ends": waterfall.ends(document, fall),
        "advice": advised,
        "code": code,
    }


def as_json(value: object) -> str:
    """JSON that may stand in a script element: nothing in it can end that, or begin a comment."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _figure(document: dict, chart: Chart, scenario: dict | None) -> str:
    """A chart for the page's script, with what its pictures say above it: they are shown without the page."""
    drawn = json.loads(plotly.io.to_json(chart.figure, engine="json"))
    title = f"{scenario['name']}: {chart.title}" if scenario else chart.title
    measured = [words.machine(document).split(", Linux")[0], *([words.rounds(scenario)] if scenario else [])]
    note = [scenario["note"]] if scenario and scenario["note"] else []
    return as_json(
        {
            "title": figures.safe(title, figures.LONGEST_NAME),
            "name": chart.name,
            "subtitle": figures.safe("; ".join(measured + note), 2 * figures.LONGEST_NAME),
            **drawn,
        }
    )


def _policy(scripts: list[str]) -> str:
    """The content security policy: these scripts, their style elements and pictures that they make."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _scenario(scenario: dict) -> dict:
    """What the template says of a scenario."""
    shown = charts.charts(scenario)
    return {
        "data": scenario,
        "id": "scenario-" + words.slug(scenario["name"]),
        "verdict": findings.verdict(scenario),
        "resolution": words.resolution(scenario),
        "rounds_table": tables.rounds(scenario),
        "work": words.work(scenario),
        "disturbed": words.disturbed(scenario),
        "charts": shown,
        "picture": base64.b64encode(words.picture(scenario) or b"").decode(),
        "folded": ", ".join(dict.fromkeys(chart.folded for chart in shown if chart.folded)),
    }
