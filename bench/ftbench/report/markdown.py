"""The summary of a run in Markdown, for an issue or a chat."""

from ftbench.report import safety
from ftbench.report.render import render
from ftbench.report.view import ReportView
from ftrun import escape


def write(view: ReportView) -> bytes:
    """Return the summary, in UTF-8: conclusions, waterfalls, comparisons, machine, commands."""
    repeat = "\n".join(f"# {purpose}\n{line}" for purpose, line in view.repeat)
    code = [escape.fenced(opening.code, "python") for opening in view.openings]
    failures = [
        (title, escape.fenced(safety.beginning(text), "console"))
        for title, text in view.safety.failures
    ]
    text = render(
        "summary.md.jinja",
        escape.markdown,
        view=view,
        openings=[*zip(view.openings, code, strict=True)],
        failures=failures,
        repeat=escape.fenced(repeat, "console"),
    )
    return f"{text.rstrip()}\n".encode()
