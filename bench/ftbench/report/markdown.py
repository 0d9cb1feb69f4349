"""The run in Markdown, for an issue or a chat."""

from ftbench.report import commands, conclusions, phrases, safety, tables
from ftrun import escape


def summary(document: dict) -> str:
    """The run in Markdown: opening sentences, waterfalls, each scenario's comparisons, the machine and the commands."""
    document = conclusions.told(document)
    parts = ["## What removing the GIL did to data loading"]
    parts += [escape.markdown(phrases.capital(sentence)) for sentence in conclusions.sentences(document)]
    for fall in document["waterfalls"]:
        chart = conclusions.waterfall_chart(document, fall)
        parts += [f"### {escape.markdown(chart.title)}", _grid(chart.table)]
        parts += map(escape.markdown, conclusions.beside(document, fall))
    state, told = phrases.state(document), {fall["scenario"] for fall in document["waterfalls"]}
    if state:
        parts.append(f"**{escape.markdown(state)}**")
    for scenario in document["scenarios"]:
        parts.append(f"### {escape.markdown(scenario['name'])}")
        if scenario["question"]:
            parts.append(f"*{escape.markdown(scenario['question'])}*")
        if scenario["note"]:
            parts.append(f"**{escape.markdown(scenario['note'])}**")
        parts.append(escape.markdown(phrases.capital(phrases.work(scenario))) + ".")
        # What the waterfall says is said.
        chosen = phrases.pictured(scenario)
        if chosen and scenario["name"] not in told:
            parts.append(_grid(tables.outcomes(scenario, chosen)))
        parts.append(
            " ".join(
                escape.markdown(sentence) for sentence in (phrases.resolution(scenario), *phrases.disturbed(scenario))
            )
        )
    parts += _safety_parts(document)
    about = [*phrases.builds(document), phrases.machine(document), f"revision {phrases.revision(document)}"]
    lines = [f"- {escape.markdown(line)}" for line in about]
    lines += [
        f"- left out: {escape.markdown(each['what'])}: {escape.markdown(each['why'])}" for each in document["skipped"]
    ]
    lines += [f"- **warning**: {escape.markdown(warning)}" for warning in document["warnings"]]
    parts += [
        "### Environment",
        "\n".join(lines),
        "### Repeat it",
        escape.fenced("\n".join(f"# {what}\n{line}" for what, line in commands.commands(document)), "console"),
    ]
    for place, fall in enumerate(document["waterfalls"]):
        advised, code = conclusions.advice(document, fall)
        parts += [*([] if place else ["### What to use"]), escape.markdown(advised)]
        parts += [escape.fenced(code, "python")] if code else []
    return "\n\n".join(parts) + "\n"


def _grid(table: tables.Table) -> str:
    """A table in Markdown."""
    head = [["---:" if place in table.numbers else "---" for place in range(len(table.head))]]
    rows = [[escape.markdown(cell) for cell in row] for row in (table.head, *table.rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], *head, *rows[1:]))


def _safety_parts(document: dict) -> list[str]:
    """What the thread-safety suite found in Markdown, its table folded."""
    parts = ["### Thread safety", *map(escape.markdown, safety.sentences(document))]
    if safety.ran(document):
        parts += [
            "<details><summary>Scenario by scenario</summary>",
            _grid(safety.table(document)),
            *map(escape.markdown, safety.known(document)),
            "</details>",
        ]
        for title, said in safety.failures(document):
            parts += [escape.markdown(title), escape.fenced(safety.beginning(said), "console")]
    return parts
