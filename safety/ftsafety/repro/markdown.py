"""The script in an issue: the first Python block of a Markdown text.

Blocks are fenced as in CommonMark (https://spec.commonmark.org, 4.5), also within quotes and lists.
Standard library only, for Python 3.9: ftsafety.repro.arguments imports this file.
"""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from ftsafety.errors import MarkdownError

LANGUAGES = {"python", "python3", "py", "py3", "pycon", "python-repl", "ipython", "ipython3"}
SUFFIXES = (".md", ".markdown")
FENCE = re.compile(r"(?P<marks>`{3,}|~{3,})(?P<info>[^\n]*)$")
# A list item's mark, and that of a quote.
ITEM = re.compile(r"(?:[-*+]|\d{1,9}[.)])[ \t]+")
COMMENT = re.compile(r"[ >]*<!--")
LINK = re.compile(r"\((https?://[^\s()]+\.(?:py|ipynb|txt|zip|gz))\)")
PROMPT = ">>> "


@dataclass
class Block:
    """A fenced block."""

    marks: str
    """The opening fence without its info string."""
    info: str
    quotes: int
    """Number of quotes around it."""
    indent: int
    """Columns in front of the fence, within the quotes."""
    lines: list[str] = field(default_factory=list)

    @property
    def language(self) -> str:
        """The first word of the info string, without braces and attributes; "" if there is none."""
        words = re.split(r"[\s,:{}]+", self.info.strip(" \t{}."), maxsplit=1)
        return words[0].lower()

    @property
    def source(self) -> str:
        return textwrap.dedent("\n".join(self.lines)) + "\n"

    def is_closed_by(self, line: str) -> bool:
        stripped = line.strip(" \t")
        if len(line) - len(line.lstrip(" \t")) > self.indent + 3:  # code, as in a docstring
            return False
        return len(stripped) >= len(self.marks) and stripped == len(stripped) * self.marks[0]


def python_of_markdown(source: bytes) -> bytes:
    """Return the first Python block of a text; raises MarkdownError if there is none.

    Blocks that are labelled as Python come before those without a label that are Python. The
    prompts of an interactive session (`>>>`) are removed, its output becomes comments.
    """
    text = source.decode("utf-8-sig", errors="surrogateescape").replace("\r\n", "\n")
    fenced = list(blocks(text))
    labelled = [block for block in fenced if block.language in LANGUAGES]
    unlabelled = [block for block in fenced if not block.language and _is_python(block.source)]
    for block in (*labelled, *unlabelled):
        if block.source.strip():
            return _without_prompts(block.source).encode(errors="surrogateescape")
    if link := LINK.search(text):
        raise MarkdownError(
            f"it has no Python block, but links to {link[1]}: name that file, once it is downloaded"
        )
    raise MarkdownError("it has no Python block: put the script between ```python and ```")


def has_python(source: bytes) -> bool:
    """True if *source* is no Python, but Markdown with a Python block."""
    if _parses(source) or not (b"```" in source or b"~~~" in source):
        return False
    try:
        python_of_markdown(source)
    except MarkdownError:
        return False
    return True


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a text; a block that is not closed ends with its quote or the
    text.
    """
    block: Block | None = None
    hidden = False
    for line in text.split("\n"):
        if block is None:
            if not hidden:
                block = _opened(line)
            if block is None and (hidden or COMMENT.match(line)):
                hidden = "-->" not in line
            continue
        content = _without_quotes(line, block.quotes)
        if content is None:  # the quote ends, and its block with it
            yield block
            block = _opened(line)
        elif block.is_closed_by(content):
            yield block
            block = None
        else:
            blank = len(content) - len(content.lstrip(" \t"))
            block.lines.append(content[min(blank, block.indent) :])
    if block is not None:
        yield block


def _opened(line: str) -> Block | None:
    """Return the block that a line opens."""
    quotes, rest, quoted = 0, line, line
    while True:
        stripped = rest.lstrip(" \t")
        if stripped.startswith(">"):
            quotes += 1
            rest = stripped[1:]
            quoted = rest.removeprefix(" ")
        elif item := ITEM.match(stripped):
            rest = stripped[item.end() :]
        else:
            break
    fence = FENCE.match(stripped)
    if fence is None or (fence["marks"][0] == "`" and "`" in fence["info"]):
        return None
    return Block(fence["marks"], fence["info"].strip(), quotes, len(quoted) - len(stripped))


def _without_quotes(line: str, quotes: int) -> str | None:
    """Return a line without its quotes' marks; None if it has fewer."""
    for _ in range(quotes):
        stripped = line.lstrip(" \t")
        if not stripped.startswith(">"):
            return None
        line = stripped[1:].removeprefix(" ")
    return line


def _parses(source: str | bytes) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_python(source: str) -> bool:
    """True for Python that does something. Words, numbers and paths are expressions, too."""
    tree = _parses(source)
    if tree is None:
        return source.lstrip().startswith(PROMPT)
    actions = (ast.Import, ast.ImportFrom, ast.Call, ast.FunctionDef)
    return any(isinstance(node, actions) for node in ast.walk(tree))


def _without_prompts(source: str) -> str:
    if not source.lstrip().startswith(PROMPT.rstrip()):
        return source
    try:
        return doctest.script_from_examples(source)
    except ValueError as error:
        raise MarkdownError(f"the session in its Python block cannot be read: {error}") from error
