"""The summary of a run in Markdown, for an issue or a chat."""

from pathlib import Path

from ftbench.report import advice, commands, run_words, safety, tables, verdict_words, waterfalls
from ftbench.report.render import render
from ftbench.stats.analysis import Analysis
from ftrun import escape

MODULES = advice, run_words, safety, tables, verdict_words, waterfalls


def summary(run: Analysis, where: Path = Path()) -> str:
    """Return a run's summary in Markdown: conclusions, waterfalls, comparisons, machine, commands to repeat the run."""
    repeat = "\n".join(f"# {what}\n{line}" for what, line in commands.commands(run, where))
    more = {"results": run.results, "fenced": escape.fenced, "repeat": repeat}
    return render("summary.md.jinja", escape.markdown, MODULES, run=run, **more).rstrip() + "\n"
