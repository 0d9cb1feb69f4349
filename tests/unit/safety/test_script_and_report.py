"""Inline metadata, and a report that stays whole whatever a script holds or prints."""

from __future__ import annotations

import re

import pytest

from ftsafety.repro.campaign import Runs
from ftsafety.repro.outcome import OK, WRONG, Outcome, printable
from ftsafety.repro.report import excerpt, fenced, one_line, render
from ftsafety.repro.script import Script, ScriptError, load
from ftsafety.repro.verdict import judge

METADATA = "# /// script\n# requires-python = '>=3.13'\n# dependencies = [\n#   'h5py',\n#   'numpy<3',\n# ]\n# ///\n"


def test_dependencies():
    assert load("x/bug.py", METADATA.encode() + b"import h5py\n").dependencies == ("h5py", "numpy<3")
    assert load("-", b"print(1)\n").dependencies == ()
    assert load("-", b"print(1)\n").name == "script.py"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (METADATA + "\n" + METADATA, "more than one"),
        (METADATA.replace("# ///\n", ""), "never closed"),
        (METADATA.replace("[", "{", 1), "no TOML"),
        ("# /// script\n# dependencies = 'x'\n# ///\n", "list of strings"),
    ],
)
def test_malformed_metadata(source, words):
    with pytest.raises(ScriptError, match=words):
        load("bug.py", source.encode())


def test_code_blocks_cannot_be_left():
    text = "```\n</details>\n````` and more"
    block = fenced(text, "text")
    fence = block.splitlines()[0].removesuffix("text")
    assert len(fence) == 6 and block.endswith("\n" + fence) and text in block


def test_excerpts_and_lines_are_bounded():
    assert len(excerpt("x" * 10**6, 1000)) < 1100 and "999000 characters left out" in excerpt("x" * 10**6, 1000)
    assert one_line("a|b\n`c` <script>") == "a\\|b \\`c\\` \\<script\\>"


def test_printable():
    assert printable(b"a\tb\r\nc\x00\x1b[0m\xff\xe2\x80\xae") == "a\tb\nc\\x00\\x1b[0m\\xff\\x202e"
    assert printable(b'File "/tmp/x/script/bug.py"', "/tmp/x/script/") == 'File "bug.py"'
    long = '  File "/home/me/twin/lib/python3.13t/{}.py", line 1 in f'
    pillow = long.format("site-packages/PIL/Image").encode()
    assert printable(pillow) == '  File "site-packages/PIL/Image.py", line 1 in f'
    assert printable(long.format("threading").encode()) == '  File "lib/python3.13t/threading.py", line 1 in f'


DESCRIBED = {
    "interpreter": {"version": "3.13.5", "build": "PGO build", "compiler": "GCC 14"},
    "packages": {"numpy": "2.4.6"},
    "cpu": {"model": "a CPU", "usable": 2, "count": 4},
    "memory": {"total": 2**33},
    "os": {"name": "Debian", "kernel": "6.1", "container": None},
}


def test_the_report_holds_what_an_issue_needs():
    runs = {
        "gil": Runs("gil", [Outcome(OK, "", modules=("numpy",))] * 9),
        "ft-gil": Runs("ft-gil", [Outcome(OK, "")] * 9),
        "ft": Runs("ft", [Outcome(WRONG, "exit status 1", stdout="3 | 4\n", stderr="Traceback ...")] * 9),
    }
    script = Script("bug.py", b"x = '```'\nprint(3)\n")
    text = render(
        script,
        judge(runs),
        runs,
        {"ft": DESCRIBED, "gil": DESCRIBED},
        "./twins repro bug.py",
        "./twins exec ft python bug.py 8",
        False,
        None,
        [("Threads", "fails with 2")],
    )
    for words in (
        "Fails only without the GIL",
        "100% (66% to 100%)",
        "Traceback ...",
        "3 | 4",
        "x = '```'",
        "./twins repro bug.py",
        "numpy 2.4.6",
        "CPython 3.13.5",
        "a CPU",
        "## Threads",
        "walls: none",
    ):
        assert words in text, words
    header, rule, *rows = re.findall(r"^\|.*\|$", text, re.M)
    assert {line.count("|") for line in (header, rule, *rows[:3])} == {header.count("|")}
