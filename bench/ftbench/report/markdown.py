"""The run in Markdown, for an issue or a chat."""

from ftbench.document.model import Results
from ftbench.report import advice, commands, run_words, safety, tables, verdict_words, waterfalls
from ftbench.stats.analysis import Analysis
from ftrun import escape


def summary(run: Analysis) -> str:
    """Return the run in Markdown: sentences, waterfalls, comparisons, the machine and the commands."""
    results = run.results
    parts = ["## What removing the GIL did to data loading"]
    parts += [escape.markdown(run_words.capital(sentence)) for sentence in verdict_words.sentences(run)]
    for fall in run.waterfalls:
        chart = waterfalls.chart(run, fall)
        parts += [f"### {escape.markdown(chart.title)}", _grid(chart.table)]
        parts += map(escape.markdown, waterfalls.notes(run, fall))
    state, told = run_words.state(results), {fall.scenario for fall in run.waterfalls}
    if state:
        parts.append(f"**{escape.markdown(state)}**")
    for scenario in run.scenarios:
        parts.append(f"### {escape.markdown(scenario.name)}")
        if scenario.question:
            parts.append(f"*{escape.markdown(scenario.question)}*")
        if scenario.note:
            parts.append(f"**{escape.markdown(scenario.note)}**")
        parts.append(escape.markdown(run_words.capital(run_words.work(scenario))) + ".")
        # The waterfall has said it.
        chosen = tables.pictured(scenario)
        if chosen and scenario.name not in told:
            parts.append(_grid(tables.outcomes(scenario, chosen)))
        parts.append(
            " ".join(
                escape.markdown(sentence)
                for sentence in (verdict_words.resolution(scenario), *run_words.disturbed(scenario))
            )
        )
    parts += _safety_parts(results)
    about = [*run_words.builds(results), run_words.machine(results), f"revision {run_words.revision(results)}"]
    lines = [f"- {escape.markdown(line)}" for line in about]
    lines += [f"- left out: {escape.markdown(line)}" for line in run_words.left_out(results)]
    lines += [f"- **warning**: {escape.markdown(line)}" for line in run_words.warnings(results)]
    parts += [
        "### Environment",
        "\n".join(lines),
        "### Repeat it",
        escape.fenced("\n".join(f"# {what}\n{line}" for what, line in commands.commands(run)), "console"),
    ]
    for place, fall in enumerate(run.waterfalls):
        advised, code = advice.advice(run, fall)
        parts += [*([] if place else ["### What to use"]), escape.markdown(advised)]
        parts += [escape.fenced(code, "python")] if code else []
    return "\n\n".join(parts) + "\n"


def _grid(table: tables.Table) -> str:
    """Return a table in Markdown."""
    head = [["---:" if place in table.numbers else "---" for place in range(len(table.head))]]
    rows = [[escape.markdown(cell) for cell in row] for row in (table.head, *table.rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (rows[0], *head, *rows[1:]))


def _safety_parts(results: Results) -> list[str]:
    """Return the thread-safety suite's outcome in Markdown, with its table folded."""
    parts = ["### Thread safety", *map(escape.markdown, safety.sentences(results))]
    if (part := results.stress) and part.results:
        parts += [
            "<details><summary>Scenario by scenario</summary>",
            _grid(safety.table(results, part)),
            *map(escape.markdown, safety.known(part)),
            "</details>",
        ]
        for title, said in safety.failures(part):
            parts += [escape.markdown(title), escape.fenced(safety.beginning(said), "console")]
    return parts
