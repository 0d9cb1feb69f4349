"""Markdown files: linked and named files exist, and Python code compiles."""

import re
import runpy
import urllib.parse

import pytest

from ftbench.compare import earlier
from ftbench.document.store import load
from ftbench.report import markdown
from ftbench.report.view import view
from ftbench.stats.analysis import analyse
from ftloader.compat.patch import REPLACED
from tests.checkout import CHECKOUT
from tests.markdown_files import code_blocks, markdown_files, without_code_blocks

DOCUMENTS = markdown_files()
each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(CHECKOUT))
)

WEB = ("http://", "https://", "mailto:")
# Paths on the reader's machine or in a container, in texts that are about those.
ELSEWHERE = ("results/", "train/", "ft-twins/")


def links(text: str) -> list[str]:
    """Return the targets of links and pictures in Markdown."""
    return re.findall(r"\]\(<?([^)>\s]+)>?[^)]*\)", without_code_blocks(text))


def anchors(text: str) -> set[str]:
    """Return the names that GitHub gives to headings."""
    names: dict[str, int] = {}
    result = set()
    for heading in re.findall(r"^#{1,6} +(.+?)[ #]*$", without_code_blocks(text), re.M):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = names[name] = names.get(name, -1) + 1
        result.add(f"{name}-{count}" if count else name)
    return result


def paths_in_backticks(text: str) -> list[str]:
    """Return the words in backticks that look like paths of the repository:
    a folder, a slash and maybe more.
    """
    # "New file `...`" in a guide is a file that the reader is to write.
    prose = re.sub(r"New file `[^`]+`", "", without_code_blocks(text))
    words = [word for code in re.findall(r"`([^`\n]+)`", prose) for word in code.split()]
    folders = {entry.name for entry in CHECKOUT.iterdir() if entry.is_dir()}
    found = []
    for word in words:
        # As in ./twins audit FILE.py:NAME.
        path = re.sub(r":\w+$", "", word).removeprefix("./")
        if re.fullmatch(r"\.?\w[\w.-]*/[\w./*-]*", path) and not path.startswith(ELSEWHERE):
            # A program or a folder, or anything in one of the repository's.
            if (
                path.endswith(("/", ".py", ".md", ".toml", ".yaml", ".yml"))
                or path.partition("/")[0] in folders
            ):
                found.append(path)
    return found


def test_the_documents_are_found():
    names = {str(path.relative_to(CHECKOUT)) for path in DOCUMENTS}
    assert {
        "README.md",
        "docs/README.md",
        "docs/loader.md",
        "loader/README.md",
        "repro/README.md",
    } <= names


@pytest.mark.parametrize(("name", "lines"), [("README.md", 150), ("CONTRIBUTING.md", 215)])
def test_what_everyone_reads_is_short(name, lines):
    assert len((CHECKOUT / name).read_text().splitlines()) <= lines


@each_document
def test_links_resolve(document):
    for link in links(document.read_text()):
        if link.startswith(WEB):
            continue
        path, _, anchor = urllib.parse.unquote(link).partition("#")
        target = document.parent / path if path else document
        assert target.exists(), f"{link}: there is no {path}"
        if anchor:
            assert anchor in anchors(target.read_text()), f"{link}: no heading has this name"


@each_document
def test_paths_in_backticks_exist(document):
    for path in paths_in_backticks(document.read_text()):
        assert any(CHECKOUT.glob(path.rstrip("/"))), f"`{path}` does not exist"


def test_the_index_has_every_document():
    docs = CHECKOUT / "docs"
    linked = {
        (docs / link.partition("#")[0]).resolve()
        for link in links((docs / "README.md").read_text())
    }
    missing = {path.name for path in docs.glob("*.md")} - {
        path.name for path in linked if path.parent == docs
    }
    assert missing <= {"README.md"}


@each_document
def test_python_blocks_compile(document):
    for number, code in enumerate(code_blocks(document.read_text(), "python"), 1):
        compile(code, f"{document.name}, python block {number}", "exec")


@each_document
def test_no_version_of_torch_is_named(document):
    """The lock file has the version; in documents it would be wrong after the next update."""
    found = re.findall(r"\b(?:pytorch|torch)\s+\d[\w.]*", document.read_text(), re.I)
    assert not found


@pytest.mark.parametrize(
    "heading, anchor",
    [
        ("## How to read the result", "how-to-read-the-result"),
        ("# Is `twins` *fast*?", "is-twins-fast"),
        ("### A [link](there.md) & more", "a-link--more"),
        ("# Same\n\n## Same", "same same-1"),
    ],
)
def test_anchors_are_github_s(heading, anchor):
    assert anchors(f"```\n# code\n```\n{heading}\n") == set(anchor.split())


def test_what_is_taken_for_a_path():
    text = (
        "`docker/lock`, `./twins audit docs/audit/gone.py:data`, `results/latest`, "
        "`reproducer/`, `a/b`, `ft/gil`"
    )
    assert paths_in_backticks(text) == ["docker/lock", "docs/audit/gone.py", "reproducer/"]
    assert paths_in_backticks("New file `docs/mine.md`, as `docs/README.md`") == ["docs/README.md"]
    assert links("[a](docs/x.md#y) ![p](p.png)\n```\n[no](code)\n```") == ["docs/x.md#y", "p.png"]


def test_blocks_within_lists_are_found():
    text = "- a list:\n\n  ```python\n  x = 1\n  ```\n\n```sh\nls\n```\n"
    assert code_blocks(text, "python") == ["x = 1\n"] and code_blocks(text, "sh") == ["ls\n"]


@pytest.mark.slow
def test_the_runs_that_are_kept_can_be_read_and_say_the_same_again():
    kept = list((CHECKOUT / "docs/results").rglob("results.json"))
    assert kept
    for path in kept:
        run = analyse(load(path))
        run.hours = earlier.find(run.results, path)
        assert markdown.write(view(run)).decode() == (path.parent / "summary.md").read_text()


def test_what_the_import_of_the_loader_replaces_in_torch_is_listed():
    text = (CHECKOUT / "docs/loader.md").read_text()
    section = text.partition("### What importing this package changes in torch\n")[2]
    table = re.findall(r"^\| `(torch\.[\w.]+)` \|", section.partition("\n## ")[0], re.M)
    assert sorted(table) == sorted(REPLACED)


def test_the_rehearsal_of_a_newcomer_types_every_command_of_the_readme():
    runpy.run_path(str(CHECKOUT / ".ci" / "newcomer"))["check_commands"]()
