"""summary.md: the run in Markdown, for an issue or a chat."""

from __future__ import annotations

from collections.abc import Iterable

from ftbench.report import overview, repeat, safety, waterfall, words
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
        if scenario["name"] not in told and (table := _comparisons(scenario)):
            parts.append(table)
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
    chain = waterfall.rows(document, fall)
    rows = [["what changes", "factor", "samples/s", "throughput", "CPU time"], ["---", "---:", "---:", "---", "---"]]
    for row in chain:
        factor = "" if row.ratio is None else f"{row.ratio:.2f}"
        rows.append([text(row.name), factor, f"{row.value:.0f}", text(row.throughput), text(row.cpu)])
    found = [f"### {text(waterfall.title(document, fall))}", _table(rows), text(waterfall.ends(document, fall))]
    return [*found, text(waterfall.missing(fall))] if fall["missing"] else found


def _table(rows: Iterable[Iterable[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def text(value: str) -> str:
    """Text that Markdown shows as it is, on one line: no markup, no HTML, no mention of anybody."""
    return escape.markdown(str(value))


def _safety(document: dict) -> list[str]:
    """What the thread-safety suite found, its table folded."""
    parts = ["### Thread safety", *(text(sentence) for sentence in safety.sentences(document))]
    if safety.ran(document):
        table = safety.table(document)
        rows = [table.head, ["---:" if place in table.numbers else "---" for place in range(len(table.head))]]
        rows += [[text(cell) for cell in row] for row in table.rows]
        parts += [
            "<details><summary>Scenario by scenario</summary>",
            _table(rows),
            *(text(line) for line in safety.known(document)),
            "</details>",
        ]
        for title, said in safety.failures(document):
            parts += [text(title), _code(safety.beginning(said).splitlines())]
    return parts


def _comparisons(scenario: dict) -> str:
    chosen = words.pictured(scenario)
    if not chosen:
        return ""
    wanted = any(c["target"] for c in chosen)
    head = ["comparison", f"{words.metric(scenario).noun} (95% confidence interval)", *(["target"] if wanted else [])]
    rows = [head, ["---"] * len(head)]
    for c in chosen:
        rows.append(
            [
                text(words.title_with_case(scenario, c)),
                text(words.short(scenario, c)),
                *([text(words.target(c))] if wanted else []),
            ]
        )
    return _table(rows)


def _code(lines, language: str = "console") -> str:
    """A code block that nothing in it can end."""
    return escape.fenced("\n".join(lines), language)
