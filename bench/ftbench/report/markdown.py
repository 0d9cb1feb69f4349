"""The summary of a run in Markdown, for an issue or a chat."""

from ftbench.report import render, safety
from ftbench.report.view import ReportView
from ftrun import escape


def write(view: ReportView) -> bytes:
    """Return the summary, in UTF-8: conclusions, waterfalls, comparisons, machine, commands."""
    repeat = "\n".join(f"# {purpose}\n{line}" for purpose, line in view.repeat)
    openings, failures = [], []
    for opening in view.openings:
        openings.append((opening, escape.fenced(opening.code, "python")))
    for title, failure in view.safety.failures:
        failures.append((title, escape.fenced(safety.beginning(failure), "console")))
    return render.markdown(
        "summary.md.jinja",
        view=view,
        openings=openings,
        failures=failures,
        repeat=escape.fenced(repeat, "console"),
    )
