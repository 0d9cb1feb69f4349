"""The run in Markdown, for an issue or a chat."""

from ftbench.report import commands
from ftbench.report.render import render
from ftbench.stats.analysis import Analysis
from ftrun import escape


def summary(run: Analysis) -> str:
    """Return the run in Markdown: sentences, waterfalls, comparisons, the machine and the commands."""
    repeat = "\n".join(f"# {what}\n{line}" for what, line in commands.commands(run))
    more = {"results": run.results, "fenced": escape.fenced, "repeat": repeat}
    return render("summary.md.jinja", escape.markdown, run=run, **more).rstrip() + "\n"
