"""Escaping of untrusted text before it is shown on a terminal or in Markdown.

Untrusted text may hold escape sequences that write the clipboard or repaint the screen, invisible
or right-to-left characters, and mentions of GitHub users.
"""

from __future__ import annotations

import os
import re
import sys

# Characters that are markup in Markdown, anywhere or at the start of a line.
_MARKS = re.compile(r"[\\`*_\[\]<>|~#&!$]|^[-+=]")
# Words that GitHub turns into links or mentions of people: @name, #123, GH-123, https://, www.
_CALLS = re.compile(r"[@#](?=\w)|\bgh(?=-\d)|:(?=//)|\bwww(?=\.)", re.IGNORECASE)


def terminal(text: str) -> str:
    r"""Return *text* with escapes such as \x1b in place of unprintable characters. Keeps line
    breaks and tabs.
    """
    if text.isprintable():
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    return character.encode("unicode_escape").decode()


def one_line(text: str) -> str:
    """Return *text* as one line that is safe on a terminal: spaces replace line breaks and tabs."""
    for character in "\n\t\r":
        text = text.replace(character, " ")
    return terminal(text)


def markdown(text: str) -> str:
    """Return *text* as one line of Markdown that shows markup, HTML,
    links and mentions of users as plain text.
    """
    marked = _MARKS.sub(r"\\\g<0>", " ".join(one_line(text).split()))
    # An empty comment breaks the word.
    return _CALLS.sub(r"\g<0><!-- -->", marked)


def fenced(text: str, language: str = "") -> str:
    """Return *text* as a Markdown code block, with a fence longer
    than any row of backticks in *text*.
    """
    text = terminal(text)
    rows = re.findall(r"`+", text)
    longest = max(map(len, rows), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def any_locale() -> None:
    """Make stdout escape characters that the locale's encoding lacks,
    instead of raising UnicodeEncodeError.
    """
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # as stderr is from the start


def print_report(text: str) -> None:
    """Print *text*. An OSError is ignored: the program that reads stdout (such as head) or the
    terminal has gone.
    """
    try:
        print(text, flush=True)
    except OSError:
        # flushing the rest must not fail at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
