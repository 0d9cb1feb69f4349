"""Rendering of the templates: the page, the summary in Markdown, the comparison of two runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2

from ftbench.report import advice, charts, run_words, safety, tables, verdict_words, waterfalls

TEMPLATES = Path(__file__).resolve().parent / "templates"
MODULES = (advice, charts, run_words, safety, tables, verdict_words, waterfalls)


def render(name: str, escaped: Callable[[str], str], **context: Any) -> str:
    """Return the template *name* with *context* and the report's modules; every string passes through `escaped`."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=name.endswith(".html.jinja"),
        finalize=lambda value: escaped(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    modules = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    return templates.get_template(name).render(modules, **context)
