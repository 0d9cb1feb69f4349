"""Rendering of the templates: the page, the summary in Markdown, the comparison of two runs."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2

TEMPLATES = Path(__file__).resolve().parent / "templates"


def render(name: str, escaped: Callable[[str], str], modules: Iterable[ModuleType] = (), **context: Any) -> str:
    """Return the template *name*, filled in from *modules* and *context*; `escaped` converts each inserted string."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=name.endswith(".html.jinja"),
        finalize=lambda value: escaped(value) if type(value) is str else value,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named = {module.__name__.rpartition(".")[2]: module for module in modules}
    return templates.get_template(name).render(named, **context)
