"""summary.md: the run in Markdown, for an issue or a chat."""

from __future__ import annotations

from ftbench.report import overview, repeat, safety, tables, waterfall, words
from ftrun import escape


def summary(document: dict) -> str:
    """The opening sentences and waterfalls, each scenario's comparisons in words, the machine and the command."""
    parts = ["## What removing the GIL did to data loading"]
    parts += [text(words.capital(sentence)) for sentence in overview.sentences(document)]
    for fall in document["waterfalls"]:
        parts += _waterfall(document, fall)
    state, told = words.state(document), {fall["scenario"] for fall in document["waterfalls"]}
    if state:
        parts.append(f"**{text(state)}**")
    for scenario in document["scenarios"]:
        parts.append(f"### {text(scenario['name'])}")
        if scenario["question"]:
            parts.append(f"*{text(scenario['question'])}*")
        if scenario["note"]:
            parts.append(f"**{text(scenario['note'])}**")
        parts.append(text(words.work(scenario)) + ".")
        # What the waterfall says is said.
        chosen = words.pictured(scenario)
        if chosen and scenario["name"] not in told:
            parts.append(_grid(tables.outcomes(scenario, chosen)))
        parts.append(" ".join(text(sentence) for sentence in (words.resolution(scenario), *words.disturbed(scenario))))
    parts += _safety(document)
    lines = [
        f"- {text(line)}"
        for line in (*words.builds(document), words.machine(document), f"revision {words.revision(document)}")
    ]
    lines += [f"- left out: {text(each['what'])}: {text(each['why'])}" for each in document["skipped"]]
    lines += [f"- **warning**: {text(warning)}" for warning in document["warnings"]]
    parts += [
        "### Environment",
        "\n".join(lines),
        "### Repeat it",
        _code(line for _, line in repeat.commands(document)),
    ]
    for place, fall in enumerate(document["waterfalls"]):
        advised, code = waterfall.advice(document, fall)
        parts += [*([] if place else ["### What to use"]), text(advised), _code([code], "python")]
    return "\n\n".join(parts) + "\n"


def _waterfall(document: dict, fall: dict) -> list[str]:
    found = [f"### {text(waterfall.title(document, fall))}", _grid(waterfall.table(document, fall))]
    return [*found, *(text(said) for said in (waterfall.ends(document, fall), waterfall.missing(fall)) if said)]


def _grid(table: tables.Table) -> str:
    head = [["---:" if place in table.numbers else "---" for place in range(len(table.head))]]
    rows = [[text(cell) for cell in row] for row in (table.head, *table.rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], *head, *rows[1:]))


def text(value: str) -> str:
    """Text that Markdown shows as it is, on one line: no markup, no HTML, no mention of anybody."""
    return escape.markdown(str(value))


def _safety(document: dict) -> list[str]:
    """What the thread-safety suite found, its table folded."""
    parts = ["### Thread safety", *(text(sentence) for sentence in safety.sentences(document))]
    if safety.ran(document):
        parts += [
            "<details><summary>Scenario by scenario</summary>",
            _grid(safety.table(document)),
            *(text(line) for line in safety.known(document)),
            "</details>",
        ]
        for title, said in safety.failures(document):
            parts += [text(title), _code(safety.beginning(said).splitlines())]
    return parts


def _code(lines, language: str = "console") -> str:
    """A code block that nothing in it can end."""
    return escape.fenced("\n".join(lines), language)
