"""Conversion of a notebook into a Python script: its code cells in order, without IPython's magics
and ! commands.

Standard library only, for Python 3.9: ftsafety.repro.arguments imports this file.
"""

from __future__ import annotations

import ast
import json
import re

from ftsafety.errors import NotebookError

# Cell magics that leave the rest of the cell as Python.
OF_PYTHON = ("%%time", "%%timeit", "%%capture", "%%prun")
# No character fits two neighbouring parts of a pattern, so that a match takes time linear in the
# length of the line.
LINE = re.compile(
    r"^(?P<indent>[ \t]*)(?:(?P<timing>%(?:time|timeit)[ \t]+)(?![-\s])(?P<statement>.+)"
    r"|(?P<magic>(?:[%!]|\w[\w, ]*=[ \t]*[%!])\S.*|[\w.]+\?\??\s*))$"
)
MARK = re.compile(rb"^# ?%%", re.MULTILINE)
CELL_MARK = re.compile(r"^# ?%%.*\n", re.MULTILINE)
FUTURE = re.compile(r"^from __future__ import [^\n(]+$", re.MULTILINE)
MAGIC = re.compile(rb"^[ \t]*[%!]\w", re.MULTILINE)
# What `jupyter nbconvert` makes of them, unless the script imports this function.
CONVERTED = re.compile(r"^(?P<indent>[ \t]*)(?P<magic>(?:\w[\w, ]*=[ \t]*)?get_ipython\(\)\..*)$")
CONVERTS = re.compile(rb"^[ \t]*(?:\w[\w, ]*=[ \t]*)?get_ipython\(\)\.", re.MULTILINE)
Converted = tuple[bytes, tuple[str, ...]]
"""Python source, and the IPython lines that were left out."""


def python_of_notebook(source: bytes) -> Converted:
    """Return (Python source of the code cells, IPython lines
    that were left out); raises NotebookError.
    """
    try:
        notebook = json.loads(source)
        language = notebook["metadata"].get("language_info", {}).get("name", "python")
        cells = _code(notebook["cells"])
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise NotebookError(f"no notebook of version 4 ({type(error).__name__})") from error
    if language != "python":
        raise NotebookError(f"a notebook of {str(language)[:40]!r}, not of Python")
    try:
        return _joined(cells)
    except UnicodeEncodeError as error:
        raise NotebookError("a cell holds a surrogate, which no file of text can hold") from error


def _code(cells: list) -> list[str]:
    """Return the sources of the code cells."""
    return [_text(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def _text(source: object) -> str:
    if isinstance(source, list):
        return "".join(map(str.__str__, source))
    if not isinstance(source, str):
        raise TypeError("a cell's source is neither a string nor a list")
    return source


def is_percent_script(source: bytes) -> bool:
    """True if *source* is a script with IPython lines: such as `%time` below cell marks (`# %%`),
    or converted ones.
    """
    if CONVERTS.search(source) and b"import get_ipython" not in source:
        return True
    return bool(MARK.search(source) and MAGIC.search(source))


def python_of_percent_script(source: bytes) -> Converted:
    """Return (Python source of a script with cell marks, IPython lines that were left out)."""
    text = source.decode(errors="surrogateescape")
    parts = CELL_MARK.split(text)
    return _joined([part for part in parts if part.strip()])


def _joined(cells: list[str]) -> Converted:
    """Return the cells as one script, and the lines that were left out."""
    left_out: list[str] = []
    parts = []
    for number, cell in enumerate(cells, 1):
        lines = _without_cell_magic(cell.rstrip().split("\n"), left_out)
        if not _compiles("\n".join(lines)):
            lines = [_line(line, LINE, left_out) for line in lines]
        lines = [_line(line, CONVERTED, left_out) for line in lines]
        parts.append("\n".join([f"# %% cell {number}", *lines, ""]))
    text = "\n".join(parts)
    head = FUTURE.findall(text)  # legal in any cell, but in a script only at its start
    text = FUTURE.sub("", text)
    if re.search(r"^[ \t]*display\(", text, re.MULTILINE):
        head.append("display = print  # IPython has it")
    text = "\n".join([*head, text])
    return text.encode(errors="surrogateescape"), tuple(left_out)


def _without_cell_magic(lines: list[str], left_out: list[str]) -> list[str]:
    """Return the lines of a cell with a cell magic as comments; add the magic to *left_out*."""
    first, *rest = lines
    if not first.startswith("%%"):
        return lines
    left_out.append(first)
    if first.split()[0] not in OF_PYTHON:
        rest = [f"# {line}" for line in rest]
    return [f"# left out: {first}", *rest]


def _compiles(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _line(line: str, pattern: re.Pattern[str], left_out: list[str]) -> str:
    """Return *line* as Python, and add what this leaves out to *left_out*.
    *pattern*: LINE or CONVERTED.

    Removes `%time` before a statement. Replaces any other IPython line with ``pass`` and a comment.
    """
    match = pattern.match(line)
    if match is None or line.lstrip().startswith("#"):
        return line
    parts = match.groupdict()
    if timing := parts.get("timing"):
        left_out.append(timing.strip())
        return f"{parts['indent']}{parts['statement']}"
    left_out.append(parts["magic"].strip())
    return f"{parts['indent']}pass  # left out: {parts['magic']}"
