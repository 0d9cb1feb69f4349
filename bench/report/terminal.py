"""The comparison as tables on a terminal, or as plain text where stdout is none."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.contestants import CONFIG_TITLES, CONFIGS, plural
from bench.metrics import METRICS
from bench.report import words
from bench.statistics import MISSED, NO_DIFFERENCE, TOO_FEW, UNCLEAR
from bench.variants import VARIANTS

# A pipe has no width; tables need this much not to break their lines.
PLAIN_WIDTH = 120


def show(document: dict, directory: Path) -> None:
    """Print everything on stdout."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    for scenario in document["scenarios"]:
        console.print()
        console.print(f"[bold]{escape(scenario['name'])}[/bold]: {escape(words.work(scenario))}")
        console.print(_measured(scenario))
        ratios = _ratios(scenario)
        if ratios:
            console.print(ratios)
        secondary = _secondary(scenario)
        if secondary:
            console.print(secondary)
        console.print(escape(words.noise(scenario)))
        for sentence in words.verdict(scenario):
            console.print(f"[bold]{escape(sentence)}[/bold]")
    console.print()
    for line in words.builds(document):
        console.print(escape(line))
    console.print(escape(words.machine(document)))
    console.print(f"revision {escape(words.revision(document))}")
    for each in document["skipped"]:
        console.print(f"[yellow]left out:[/yellow] {escape(each['what'])}: {escape(each['why'])}")
    for warning in document["warnings"]:
        console.print(f"[bold yellow]warning:[/bold yellow] {escape(warning)}")
    state = words.state(document)
    if state:
        console.print(f"[bold red]{escape(state)}[/bold red]")
    # soft_wrap: a path that a person copies must not be broken.
    console.print(f"report: {directory / 'report.html'}", soft_wrap=True, markup=False)


def _measured(scenario: dict) -> Table:
    legend = "; ".join(f"{config}: {CONFIG_TITLES[config]}" for config in CONFIGS
                       if any(c["config"] == config for c in scenario["contestants"]))
    metric = words.metric(scenario)
    table = Table(title=f"{metric.title}, {metric.unit}: median (min-max)", title_justify="left",
                  caption=legend, caption_justify="left")
    measured = {c["key"]: c["metrics"][metric.name] for c in scenario["analysis"]["contestants"]}
    counts = sorted({c["workers"] for c in scenario["contestants"]})
    table.add_column("configuration")
    table.add_column("workers are")
    for n in counts:
        table.add_column(f"{n} worker{'s' if n != 1 else ''}", justify="right", no_wrap=True)
    for config in CONFIGS:
        for variant in VARIANTS:
            values = [measured.get(f"{config}/{variant}/{n}") for n in counts]
            if any(values):
                cells = [v and [metric.write(v[which]) for which in ("median", "min", "max")] for v in values]
                table.add_row(config, plural(variant),
                              *("{} ({}-{})".format(*cell) if cell else "" for cell in cells))
    return table


def _verdict(text: str) -> str:
    style = "dim" if text in (NO_DIFFERENCE, TOO_FEW) else "bold"
    return f"[{style}]{text}[/{style}]"


def _target(comparison: dict) -> str:
    if comparison["target"] is None:
        return ""
    style = {MISSED: "red", UNCLEAR: "yellow"}.get(comparison["target"]["verdict"], "green")
    return f"[{style}]{escape(words.target(comparison))}[/{style}]"


def _ratios(scenario: dict) -> Table | None:
    metric = words.metric(scenario)
    found = words.comparisons(scenario, metric.name)
    with_targets = any(c["target"] for c in found)
    table = Table(title=f"Ratios of {metric.noun} within rounds", title_justify="left")
    for heading in ("comparison", "ratio", "95% CI", "verdict", *(["target"] if with_targets else [])):
        table.add_column(heading, justify="right" if heading in ("ratio", "95% CI") else "left",
                         no_wrap=heading != "comparison")
    kind = None
    for c in found:
        if kind not in (None, c["kind"]):
            table.add_section()
        kind = c["kind"]
        table.add_row(escape(c["title"]), words.times(c["mean"]), words.interval(c), _verdict(c["verdict"]),
                      *([_target(c)] if with_targets else []))
    return table if found else None


def _secondary(scenario: dict) -> Table | None:
    table = Table(title="Also measured (ratio, 95% CI, verdict)", title_justify="left")
    names = scenario["metrics"][1:]
    table.add_column("comparison")
    for name in names:
        table.add_column(METRICS[name].title)
    rows: dict[str, dict[str, str]] = {}
    for name in names:
        for c in words.comparisons(scenario, name):
            if c["kind"] in ("headline", "method", "peer"):
                rows.setdefault(c["title"], {})[name] = \
                    f"{words.times(c['mean'])} ({words.interval(c)}) {_verdict(c['verdict'])}"
    for title, cells in rows.items():
        table.add_row(escape(title.split(":")[0]), *(cells.get(name, "") for name in names))
    return table if rows else None
