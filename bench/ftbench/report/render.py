"""Rendering of the templates: pages, summaries in Markdown, the comparison of two runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2

from ftrun import escape

TEMPLATES = Path(__file__).resolve().parent / "templates"


def render(name: str, escaped: Callable[[str], str], **values: Any) -> str:
    """Return the template *name*, filled in with *values*;
    `escaped` converts each inserted string.
    """
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=name.endswith(".html.jinja"),
        finalize=lambda value: escaped(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(name).render(**values)


def markdown(name: str, **values: Any) -> bytes:
    """Return the Markdown of the template *name*, filled in with *values*, in UTF-8."""
    text = render(name, escape.markdown, **values)
    return f"{text.rstrip()}\n".encode()
