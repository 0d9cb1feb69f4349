"""Text from elsewhere is text on a terminal and in Markdown."""

import re

import pytest

from ftrun import escape
from tests.hostile_text import HOSTILE_TEXTS

EVERY = [*HOSTILE_TEXTS, " ".join(HOSTILE_TEXTS), "\n".join(HOSTILE_TEXTS)]


@pytest.mark.parametrize("text", EVERY)
def test_a_terminal_shows_all_and_obeys_nothing(text):
    for shown in (
        escape.terminal(text),
        escape.one_line(text),
        escape.markdown(text),
        escape.fenced(text),
    ):
        assert all(c.isprintable() or c == "\n" for c in shown)
        shown.encode()  # no bytes that are no UTF-8 either
    assert "\n" not in escape.one_line(text) + escape.markdown(text)


def test_plain_text_stays_as_it_is():
    for plain in ("ft-gil: 3 of 20 runs (p = 0.01), a/b.py:12 ünï 世界", "two\nlines\tand a tab"):
        assert escape.terminal(plain) == plain
    assert escape.one_line("two\nlines  and\ta tab") == "two lines  and a tab"
    assert escape.markdown("ft-gil: 3 of 20 runs, a/b.py") == "ft-gil: 3 of 20 runs, a/b.py"
    assert escape.terminal("\x1b[0m\u202e\udc80") == "\\x1b[0m\\u202e\\udc80"


@pytest.mark.parametrize("text", EVERY)
def test_markdown_has_no_mark_no_element_and_calls_nobody(text):
    shown = escape.markdown(text)
    bare = re.sub(r"<!-- -->", "\0", shown)
    # What is left of marks are those with a backslash before them, which is itself not escaped.
    unescaped = re.sub(r"\\[\\`*_\[\]<>|~#&!$=+-]", "", bare)
    assert not re.search(r"[\\`*_\[\]<>|~#&!$]", unescaped), shown
    assert not re.search(r"[@#]\w|(?i:\bgh-\d)|://|(?i:\bwww\.)", bare), shown


@pytest.mark.parametrize("beginning", ["- item", "+ item", "=====", "-----", "# title"])
def test_markdown_begins_no_block(beginning):
    assert escape.markdown(beginning).startswith("\\")


@pytest.mark.parametrize("text", [*EVERY, "```\n</details>\n````` and more", "`" * 300])
def test_a_block_of_code_ends_where_it_should(text):
    first, *content, last = escape.fenced(text, "text").split("\n")
    fence = first.removesuffix("text")
    assert last == fence and set(fence) == {"`"} and len(fence) >= 3
    assert not any(line.strip().startswith(fence) for line in content)
