"""The product's source: its files and functions are short, and its words are plain."""

import ast
import re

from tests.checkout import CHECKOUT

FILES = sorted(
    path
    for folder in ("loader/ftloader", "bench/ftbench", "safety/ftsafety", "runtime/ftrun", "native")
    for path in (CHECKOUT / folder).rglob("*.py")
)
FILE_LINES, FUNCTION_LINES = 400, 60
# Words that readers stumbled over, or that say nothing.
NOT_USED = r"""
    so many, midst, (?:the|its|a|at|very) begin, for ever, anew, thereby, whoever, meanwhile, of the user's, its like,
    (?:is|are) taken for, (?:is|are) told, what of the
"""
PATTERN = re.compile(r"\b(?:" + re.sub(r",\s+", "|", NOT_USED.strip()).replace(" ", r"(?:\s|#)+") + r")\b", re.I)


def found_words(text):
    """(line number, words) of each use in a text, over line ends too."""
    return [(text.count("\n", 0, match.start()) + 1, match[0]) for match in PATTERN.finditer(text)]


def test_files_are_short():
    lines = {path.relative_to(CHECKOUT): len(path.read_text().splitlines()) for path in FILES}
    found = [f"{name}: {number} lines" for name, number in lines.items() if number > FILE_LINES]
    assert not found, "\n".join(found)


def test_functions_are_short():
    found = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = node.end_lineno - node.lineno + 1
                if lines > FUNCTION_LINES:
                    found.append(f"{path.relative_to(CHECKOUT)}:{node.lineno}: {node.name} has {lines} lines")
    assert not found, "\n".join(found)


def test_words_are_plain():
    found = []
    for path in FILES:
        found += [f"{path.relative_to(CHECKOUT)}:{line}: {words!r}" for line, words in found_words(path.read_text())]
    assert not found, "\n".join(found)


def test_words_are_found():
    text = "# once for\n    # ever\nbegin = 1\nat its begin\nof the user's list"
    assert [line for line, _ in found_words(text)] == [1, 4, 5]
