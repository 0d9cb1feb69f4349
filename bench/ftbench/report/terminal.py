"""The comparison as tables on a terminal, or as plain text where stdout is none."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ftbench.plan.contestants import CONFIG_TITLES, CONFIGS
from ftbench.plan.variants import VARIANTS
from ftbench.report import findings, overview, repeat, safety, waterfall, words
from ftbench.stats.statistics import MISSED, NO_DIFFERENCE, TOO_FEW, UNCLEAR

# A pipe has no width; tables need this much not to break their lines.
PLAIN_WIDTH = 120


def _plain(text: str) -> str:
    """Text that neither rich nor the terminal takes for more than that."""
    return escape(words.without_controls(text))


def show(document: dict, directory: Path) -> None:
    """Print everything on stdout."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    console.print()
    for fall in document["waterfalls"]:
        console.print(_waterfall(document, fall))
        console.print(_plain(waterfall.ends(document, fall)))
        if fall["missing"]:
            console.print(_plain(waterfall.missing(fall)))
        console.print()
    for sentence in overview.sentences(document):
        console.print(f"[bold]{_plain(words.capital(sentence))}[/bold]")
    told = {fall["scenario"]: len(fall["steps"]) + 1 for fall in document["waterfalls"]}
    for scenario in document["scenarios"]:
        # What the waterfall says is said.
        if len(scenario["contestants"]) > told.get(scenario["name"], 0):
            _scenario(console, scenario, detailed=scenario["name"] not in told)
    _safety(console, document)
    console.print()
    for line in words.builds(document):
        console.print(_plain(line))
    console.print(_plain(words.machine(document)))
    console.print(f"revision {_plain(words.revision(document))}")
    for each in document["skipped"]:
        console.print(f"[yellow]left out:[/yellow] {_plain(each['what'])}: {_plain(each['why'])}")
    for warning in document["warnings"]:
        console.print(f"[yellow]note:[/yellow] {_plain(warning)}")
    state = words.state(document)
    if state:
        console.print(f"[bold red]{_plain(state)}[/bold red]")
    # soft_wrap: what a person copies must not be broken.
    console.print(f"report: {directory / 'report.html'}", soft_wrap=True, markup=False)
    if longer := repeat.longer(document):
        console.print(f"To settle what is open: {_plain(longer)}", soft_wrap=True)
    for fall in document["waterfalls"]:
        text, code = waterfall.advice(document, fall)
        console.print(f"[bold]{_plain(text)}[/bold]")
        console.print(f"  {_plain(code)}", soft_wrap=True)


def _waterfall(document: dict, fall: dict) -> Table:
    """The chain, a step in a line."""
    chain = waterfall.rows(document, fall)
    table = Table(title=_plain(waterfall.title(document, fall)), title_justify="left", box=None, pad_edge=False)
    table.add_column("what changes")
    table.add_column("factor", justify="right", no_wrap=True)
    table.add_column("samples/s", justify="right", no_wrap=True)
    table.add_column("throughput")
    table.add_column("CPU time")
    for row in chain:
        factor = "" if row.ratio is None else f"x {row.ratio:.2f}"
        cells = [_plain(text) for text in (row.name, factor, f"{row.value:.0f}", row.throughput, row.cpu)]
        table.add_row(*cells, style="bold" if row is chain[-1] else None)
    return table


def _scenario(console: Console, scenario: dict, detailed: bool) -> None:
    console.print()
    console.print(f"[bold]{_plain(scenario['name'])}[/bold]: {_plain(words.work(scenario))}")
    if scenario["question"]:
        console.print(_plain(scenario["question"]), style="italic")
    if scenario["note"]:
        console.print(f"[bold yellow]{_plain(scenario['note'])}[/bold yellow]")
    console.print(_measured(scenario))
    if not detailed:
        return
    table = _ratios(scenario)
    if table:
        console.print(table)
    console.print(_plain(words.resolution(scenario)))
    for sentence in words.disturbed(scenario):
        console.print(_plain(sentence))
    for sentence in findings.verdict(scenario):
        console.print(f"[bold]{_plain(sentence)}[/bold]")


def _safety(console: Console, document: dict) -> None:
    """What the thread-safety suite found."""
    console.print()
    if safety.ran(document):
        content = safety.table(document)
        # Many columns: without padding they fit.
        table = Table(title="Thread safety: scenarios of tests/stress", title_justify="left", padding=0)
        for place, heading in enumerate(content.head):
            table.add_column(heading, justify="right" if place in content.numbers else "left", no_wrap=not place)
        for row in content.rows:
            table.add_row(*map(_plain, row))
        console.print(table)
        for line in safety.known(document):
            console.print(_plain(line))
        for title, text in safety.failures(document):
            console.print(f"[bold red]{_plain(title)}[/bold red]", soft_wrap=True)
            console.print("\n".join(map(_plain, safety.beginning(text).splitlines())), soft_wrap=True)
    style = "bold" if safety.passed(document) or "stress" not in document else "bold red"
    for sentence in safety.sentences(document):
        console.print(f"[{style}]{_plain(sentence)}[/{style}]")


def _measured(scenario: dict) -> Table:
    legend = "; ".join(
        f"{config}: {CONFIG_TITLES[config]}"
        for config in CONFIGS
        if any(c["config"] == config for c in scenario["contestants"])
    )
    metric = words.metric(scenario)
    table = Table(
        title=f"{metric.title}, {metric.unit}: median (min-max)",
        title_justify="left",
        caption=legend,
        caption_justify="left",
    )
    measured = {c["key"]: c["metrics"][metric.name] for c in scenario["analysis"]["contestants"]}
    counts = sorted({c["workers"] for c in scenario["contestants"]})
    table.add_column("configuration")
    table.add_column("workers are")
    for n in counts:
        table.add_column(f"{n} worker{'s' if n != 1 else ''}", justify="right", no_wrap=True)
    for case in words.cases(scenario):
        rows = []
        for config in CONFIGS:
            for variant in VARIANTS:
                values = [measured.get(words.key(config, variant, n, case["name"])) for n in counts]
                if any(values):
                    cells = [v and [metric.write(v[which]) for which in ("median", "min", "max")] for v in values]
                    rows.append(
                        (
                            config,
                            words.workers_of(variant),
                            *("{} ({}-{})".format(*cell) if cell else "" for cell in cells),
                        )
                    )
        if rows and case["name"]:
            table.add_section()
            table.add_row(f"[bold]{_plain(case['title'])}[/bold]")
        for row in rows:
            table.add_row(*row)
    return table


def _outcome(scenario: dict, comparison: dict) -> str:
    style = "dim" if comparison["verdict"] in (NO_DIFFERENCE, TOO_FEW) else "bold"
    return f"[{style}]{_plain(words.short(scenario, comparison))}[/{style}]"


def _target(comparison: dict) -> str:
    if comparison["target"] is None:
        return ""
    style = {MISSED: "red", UNCLEAR: "yellow"}.get(comparison["target"]["verdict"], "green")
    return f"[{style}]{_plain(words.target(comparison))}[/{style}]"


def _ratios(scenario: dict) -> Table | None:
    metric = words.metric(scenario)
    # Of a scenario with cases, the page has the rest.
    found = words.pictured(scenario) if scenario["cases"] else words.comparisons(scenario, metric.name)
    with_targets = any(c["target"] for c in found)
    table = Table(title=f"Ratios of {metric.noun} within rounds", title_justify="left")
    for heading in ("comparison", "outcome (95% CI)", *(["target"] if with_targets else [])):
        table.add_column(heading, no_wrap=heading == "target")
    kind = None
    for c in found:
        if kind not in (None, c["kind"]):
            table.add_section()
        kind = c["kind"]
        title = words.title_with_case(scenario, c) if scenario["cases"] else c["title"]
        table.add_row(_plain(title), _outcome(scenario, c), *([_target(c)] if with_targets else []))
    return table if found else None
