"""The Markdown files of the repository, and what they are made of."""

import re
import textwrap
from pathlib import Path

from tests.checkout import CHECKOUT

PATTERNS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/*.md",
    "docs/design/*.md",
    "changes/README.md",
    "repro/README.md",
    "loader/README.md",
    "examples/README.md",
    "evaluation/README.md",
    ".github/**/*.md",
)
"""What is written for readers. docs/results is not: its files are kept as the runs wrote them."""

# A fence closes with as many backticks as it was opened with, at least.
_BLOCK = re.compile(
    r"^ *(?P<fence>`{3,})(?P<language>[\w-]*)[^\n`]*\n(?P<code>.*?)^ *(?P=fence)`* *$", re.M | re.S
)


def markdown_files() -> list[Path]:
    """Those that exist."""
    return [path for pattern in PATTERNS for path in sorted(CHECKOUT.glob(pattern))]


def code_blocks(text: str, language: str) -> list[str]:
    """The code of the fenced blocks in this language; "" stands for blocks that name none."""
    return [
        textwrap.dedent(match["code"])
        for match in _BLOCK.finditer(text)
        if match["language"] == language
    ]


def shell_commands(report: str) -> list[str]:
    """The commands in the shell blocks of a report, a line each, without the comments."""
    lines = (line for block in code_blocks(report, "sh") for line in block.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def without_code_blocks(text: str) -> str:
    """The text around the fenced blocks."""
    return _BLOCK.sub("", text)
