"""The product's source: its words are plain, and its variables are called after what they hold."""

import ast
import re
from collections import defaultdict

import pytest

from tests.checkout import CHECKOUT

# Largest share of the variables and parameters that are called after function words.
MOST_FUNCTION_WORDS = {
    "loader/ftloader": 0.01,
    "bench/ftbench": 0.01,
    "safety/ftsafety": 0.002,
    "runtime/ftrun": 0,
    "native": 0,
}
FILES = sorted(path for folder in MOST_FUNCTION_WORDS for path in (CHECKOUT / folder).rglob("*.py"))
FUNCTION_WORDS = set(
    """
    found each one there wanted given told asked here of how what said made seen others known again own shown who taken
    these those it both such needed theirs mine ours held
    """.split()
)
# Words that readers stumbled over, or that say nothing.
NOT_USED = r"""
    so many, midst, (?:the|its|a|at|very) begin, for ever, anew, thereby, whoever, meanwhile, of the user's, its like,
    (?:is|are) taken for, (?:is|are) told, what of the
"""
PATTERN = re.compile(
    r"\b(?:" + re.sub(r",\s+", "|", NOT_USED.strip()).replace(" ", r"(?:\s|#)+") + r")\b", re.I
)


def found_words(text):
    """(line number, words) of each use in a text, over line ends too."""
    return [(text.count("\n", 0, match.start()) + 1, match[0]) for match in PATTERN.finditer(text)]


def test_words_are_plain():
    found = []
    for path in FILES:
        found += [
            f"{path.relative_to(CHECKOUT)}:{line}: {words!r}"
            for line, words in found_words(path.read_text())
        ]
    assert not found, "\n".join(found)


def test_words_are_found():
    text = "# once for\n    # ever\nbegin = 1\nat its begin\nof the user's list"
    assert [line for line, _ in found_words(text)] == [1, 4, 5]


# install() binds a subclass of the loader's class to torch's name.
SAME_NAME = {"DataLoader"}


def test_a_class_name_stands_for_one_thing():
    places = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name not in SAME_NAME:
                places[node.name].append(f"{path.relative_to(CHECKOUT)}:{node.lineno}")
    assert not {name: lines for name, lines in places.items() if len(lines) > 1}


def bound_names(source):
    """(line number, name) of each variable and parameter that a source binds."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg


@pytest.mark.parametrize("folder", MOST_FUNCTION_WORDS)
def test_names_are_no_function_words(folder):
    names, words = 0, []
    for path in sorted((CHECKOUT / folder).rglob("*.py")):
        for line, name in bound_names(path.read_text()):
            names += 1
            if name in FUNCTION_WORDS:
                words.append(f"{path.relative_to(CHECKOUT)}:{line}: {name!r}")
    assert len(words) <= MOST_FUNCTION_WORDS[folder] * names, "\n".join(words)


def test_function_words_are_found():
    source = "found = 1\nfor each in (lambda what: what)(found):\n    given: int\ny.own = here"
    assert FUNCTION_WORDS & {name for _, name in bound_names(source)} == {
        "found",
        "each",
        "what",
        "given",
    }
