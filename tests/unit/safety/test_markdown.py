"""The script in an issue's text, compared with what a CommonMark parser finds."""

import contextlib
import itertools
import time

import pytest
from markdown_it import MarkdownIt

from ftsafety.errors import MarkdownError
from ftsafety.repro.inputs import load
from ftsafety.repro.markdown import blocks, has_python, python_of_markdown

SCRIPT = "import threading\n\nfor name in 'ab':\n    print(name)\n"
FORM = "### What happened\n\nIt crashes, see `x` and C:\\temp <b>.\n\n### Reproducer\n\n"
TRACEBACK = '```\nTraceback (most recent call last):\n  File "a.py", line 1\nValueError: 3\n```\n\n'


def in_fence(label="python", marks="```", script=SCRIPT):
    return f"{marks}{label}\n{script}{marks}\n"


def indented(text, first, others):
    head, *lines = text.splitlines()
    return "\n".join([first + head, *(others + line if line else "" for line in lines)]) + "\n"


CONTAINERS = {
    "plain": lambda text: text,
    "quote": lambda text: indented(text, "> ", "> ").replace("\n\n", "\n>\n"),
    "list": lambda text: indented(text, "- ", "  "),
    "numbered": lambda text: "1. first\n\n" + indented(text, "2. ", "   "),
    "list-in-quote": lambda text: indented(text, "> - ", ">   ").replace("\n\n", "\n>\n"),
    "details": lambda text: f"<details><summary>code</summary>\n\n{text}\n</details>\n",
    "indented": lambda text: indented(text, "  ", "  "),
}
LABELS = "python", "py", "Python", "python3 title=bug.py", "{.python}", "pycon"
REAL = {
    f"{container}-{label}-{marks}": CONTAINERS[container](in_fence(label, marks))
    for container, label, marks in itertools.product(CONTAINERS, LABELS, ("```", "~~~~"))
} | {
    "form": FORM + in_fence(),
    "unlabelled": FORM + in_fence(""),
    "after a traceback": FORM + TRACEBACK + in_fence(),
    "after a shell": FORM + in_fence("sh", script="pip install x\n") + in_fence(),
    "after output without a label": FORM + in_fence("", script="3 4\n") + in_fence(""),
    "two": FORM + in_fence() + in_fence(script="print(2)\n"),
    "never closed": FORM + in_fence().removesuffix("```\n"),
    "no newline at the end": FORM + in_fence().removesuffix("\n"),
    "blank line in a quote": "> text\n>\n" + CONTAINERS["quote"](in_fence()),
    "template's comment": "<!-- write\n```python\nyour code\n```\n-->\n" + in_fence(),
    "fence in a longer fence": in_fence("", "````", "```python\nx\n```\n") + in_fence(),
    "comment in another block": in_fence("html", script="<!-- begin\n") + in_fence(),
    "comment among words": "It fails at `<!--`.\n\n" + in_fence(),
    "closed by a longer fence": in_fence().removesuffix("```\n") + "`````\n",
}


def of_parser(text):
    return [token.content for token in MarkdownIt().parse(text) if token.type == "fence"]


@pytest.mark.parametrize("ending", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("text", REAL.values(), ids=REAL.keys())
def test_real_shapes(text, ending):
    source = python_of_markdown(text.replace("\n", ending).encode()).decode()
    assert source.strip() == SCRIPT.strip()
    assert [block.source.strip() for block in blocks(text)] == [
        content.strip() for content in of_parser(text)
    ]


def test_session():
    session = ">>> import sys\n>>> for name in 'ab':\n...     print(name)\n...\na\nb\n"
    for text in (in_fence("pycon", script=session), in_fence("", script=session)):
        source = python_of_markdown(text.encode()).decode()
        assert compile(source, "bug.py", "exec") and "# Expected:\n## a" in source
    with pytest.raises(MarkdownError, match="session in its Python block cannot be read"):
        python_of_markdown(in_fence(script=">>> if 1:\n ...  pass\n").encode())


BIDI = "print('\u202e\u2066 x')\n"
HOSTILE = {
    "nothing": "",
    "words alone": "It crashes.",
    "one line": "```python print(1)```",
    "an empty block": in_fence(script=""),
    "blank lines": in_fence(script="\n \n"),
    "of another language": in_fence("rust", script="fn main() {}\n"),
    "a label that begins like it": in_fence("pythonic", script="x\n"),
    "words without a label": in_fence("", script="segmentation_fault\n"),
    "in a comment": f"<!--\n{in_fence()}-->",
    "in a comment that never ends": f"<!--\n{in_fence()}",
    "two marks": "``python\nprint(1)\n``\n",
    "marks of two kinds": "~``python\nprint(1)\n~``\n",
    "marks in the label": "``` py`thon\nprint(1)\n```\n",
    "not Python": in_fence("", script="import ()\n"),
    "deep": in_fence("", script="(" * 100_000),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_shapes_without_a_script(text):
    with pytest.raises(MarkdownError, match="it has no Python block: put the script between"):
        python_of_markdown(text.encode())
    assert not has_python(text.encode())


@pytest.mark.parametrize(
    "script",
    [BIDI, "x = '\0'\n", "\udcff = 1\n", "print('```')\n", "'''\n~~~\n'''\n", "\tprint(1)\n"]
    + [
        "print('<!-- ')\n",
        "print('-->')\n",
        "#" * 100_000 + "\n",
        "\x0c\nprint(1)\n",
        "print(1)\x85\n",
    ],
)
def test_hostile_scripts_stay_as_they_are(script):
    text = f"{FORM}{in_fence(script=script)}\n".encode(errors="surrogateescape")
    source = python_of_markdown(text).decode(errors="surrogateescape")
    assert source.strip() == script.strip()


@pytest.mark.parametrize(
    "text",
    [">" * 300_000, "> " * 150_000, "- " * 150_000, "`" * 300_000, "<!--" * 75_000]
    + ["```\n" * 75_000, "1. " * 100_000, "<!-- -->\n" * 33_000, "```python\n>" * 25_000],
    ids=lambda text: text[:10].strip(),
)
def test_long_texts_take_no_long_time(text):
    began = time.process_time()
    with contextlib.suppress(MarkdownError):
        python_of_markdown(text.encode())
    assert time.process_time() - began < 5


def test_a_fence_in_a_docstring_does_not_end_the_block():
    script = 'def f():\n    """Use:\n    ```\n    f()\n    ```\n    """\n'
    assert python_of_markdown(in_fence(script=script).encode()).decode() == script


def test_attachment():
    text = "See [bug.py.txt](https://example.org/files/1/bug.py.txt)."
    with pytest.raises(MarkdownError, match=r"links to https://example.org/files/1/bug.py.txt: "):
        python_of_markdown(text.encode())


def test_file_and_standard_input(tmp_path, monkeypatch):
    issue = tmp_path / "issue.md"
    issue.write_text(FORM + in_fence())
    script = load(str(issue))
    assert (script.name, script.text, script.title) == ("issue.py", SCRIPT, "issue.md")
    with open(issue) as file:
        monkeypatch.setattr("sys.stdin", file)
        assert load("-").text == SCRIPT
