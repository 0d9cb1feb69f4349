"""The summary of a merge in Markdown."""

from ftbench.merge.view import METHOD, View
from ftbench.report.render import render
from ftrun import escape


def write(view: View) -> bytes:
    """Return the summary, in UTF-8."""
    text = render("merged.md.jinja", escape.markdown, view=view, method=METHOD)
    return f"{text.rstrip()}\n".encode()
