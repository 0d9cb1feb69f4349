"""Text from elsewhere, for the two places where it is shown: a terminal and Markdown.

Such text may hold sequences that write the clipboard or repaint the screen, characters that hide or turn text, names
that call people. Whatever shows it passes it through the function for that place.
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
    r"""Return text that a terminal shows in full and never obeys: an escape character becomes \x1b. Lines stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """Return the text of `terminal`, on one line."""
    return terminal(text.translate({ord("\n"): " ", ord("\t"): " ", ord("\r"): " "}))


def markdown(text: str) -> str:
    """Return one line of Markdown that shows the text as it is: no markup, no HTML, no link, no mention of people."""
    marked = _MARKS.sub(r"\\\g<0>", " ".join(one_line(text).split()))
    # An empty comment breaks the word.
    return _CALLS.sub(r"\g<0><!-- -->", marked)


def fenced(text: str, language: str = "") -> str:
    """Return a code block of Markdown, whose fence is longer than any row of backticks in it."""
    text = terminal(text)
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def any_locale() -> None:
    """Let stdout take all text: a character that the locale lacks is escaped, and does not end the program."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # as stderr is from the start


def print_report(text: str) -> None:
    """Print, and go on if that fails: the reader of stdout may have gone (| head), or the terminal."""
    try:
        print(text, flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # flushing the rest must not fail at exit
