"""Writing of a comparison of two runs as text."""

from ftbench.compare.view import ComparisonView
from ftbench.report.render import render
from ftrun.escape import one_line


def write(view: ComparisonView) -> str:
    """Return the whole comparison as text, for a terminal."""
    return render("comparison.txt.jinja", one_line, view=view)
