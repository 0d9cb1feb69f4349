"""CONTRIBUTING.md: its examples, followed literally in a copy of the checkout,
its paths and its versions.
"""

import json
import re
import sys
import tomllib

import pytest

from tests.checkout import CHECKOUT
from tests.programs import completed, copy_checkout

PAGE = (CHECKOUT / "CONTRIBUTING.md").read_text()
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def section(title):
    """Return the text below the heading that ends with `title`, up to the next heading."""
    ((text),) = re.findall(rf"^#+ [^\n]*{re.escape(title)}\n(.*?)(?=^#+ |\Z)", PAGE, re.M | re.S)
    return text


@pytest.fixture
def copy(tmp_path):
    """The checkout's files in another folder, without what git ignores."""
    return copy_checkout(tmp_path / "copy")


def changed(text, difference):
    """Return `text` after a diff without line numbers. Its parts are separated by @@; each must fit
    in one place.
    """
    for hunk in re.split(r"^@@\n", difference, flags=re.M):
        lines = hunk.splitlines(keepends=True)
        assert {line[0] for line in lines} == {" ", "+"}, hunk
        old = "".join(line[1:] for line in lines if line[0] == " ")
        new = "".join(line[1:] for line in lines)
        assert text.count(old) == 1, f"in {text.count(old)} places:\n{old}"
        text = text.replace(old, new)
    return text


def follow(title, folder):
    """Apply the blocks of a section to the copy; return its commands."""
    commands, text = [], section(title)
    for block in FENCED.finditer(text):
        language, content = block.groups()
        if language == "sh":
            commands += content.splitlines()
            continue
        # The line before a block ends with the file's name.
        before = text[: block.start()].rstrip().splitlines()[-1]
        file = folder / re.search(r"`([^`]+)`:$", before)[1]
        if language == "diff":
            file.write_text(changed(file.read_text(), content))
        else:
            assert "New file" in before and not file.exists(), before
            file.write_text(content)
    return commands


@pytest.fixture
def run(copy, shell_environment):
    """Run one of the page's commands in the copy; return its output."""

    def run(command):
        done = completed(command, shell=True, cwd=copy, env=shell_environment, status=0)
        return done.stdout

    return run


@pytest.mark.slow
def test_a_scenario_is_listed_tested_and_measured(cache, copy, run):
    test, listing, bench = follow("A scenario of the benchmark", copy)
    assert "1 passed" in run(test)
    assert re.search(r"^json +10 min +2 min  Parsing JSON", run(listing), re.M)
    assert "With 1 worker, loader threads in the free-threaded build" in run(bench)
    results = json.loads((copy / "results" / "latest" / "results.json").read_text())
    assert {scenario["name"] for scenario in results["scenarios"]} == {"json"}


@pytest.mark.slow
def test_a_note_of_the_audit(cache, copy, run):
    (audit,) = follow("A note of the audit", copy)
    printed = " ".join(run(audit).split())
    assert "1. NOTE: shelve" in printed
    assert "https://docs.python.org/3/library/shelve.html#restrictions" in printed


@pytest.mark.slow
def test_a_locked_package(copy, run, tmp_path):
    asked = completed(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            tmp_path / "asked",
            "einops",
        ]
    )
    if asked.returncode:
        pytest.skip(
            f"no package index can be reached: {(asked.stderr.strip().splitlines() or ['?'])[-1]}"
        )
    lock = copy / "docker" / "requirements.lock"
    before = pins(lock.read_text())
    (command,) = follow("A locked package", copy)
    run(command)
    after = pins(lock.read_text())
    assert after.keys() - before.keys() == {"einops"}
    assert before.items() <= after.items(), "other packages keep their versions"
    assert re.search(r"^einops==[\d.]+ \\\n +--hash=sha256:[0-9a-f]{64}", lock.read_text(), re.M)


def pins(lock):
    return dict(re.findall(r"^([a-z0-9][\w.-]*)(?:\[[^]]*\])?==(\S+)", lock, re.M))


def test_every_path_of_the_table_exists():
    table = re.findall(r"^\| .*? \| (`.*?) \| (`.*?) \|$", section("Your first change"), re.M)
    named = re.findall(r"`([^`]+)`", " ".join(cell for row in table for cell in row))
    assert len(table) > 10 and len(named) > 20
    assert [name for name in named if not (CHECKOUT / name).exists()] == []


def test_the_version_stands_in_one_place_and_the_changelog_has_it():
    code = (CHECKOUT / "loader" / "ftloader" / "__init__.py").read_text()
    (version,) = re.findall(r'^__version__ = "(.*)"$', code, re.M)
    for name in ("pyproject.toml", "loader/pyproject.toml", "setup.py", "Dockerfile.ft"):
        assert version not in (CHECKOUT / name).read_text(), name
    changelog = (CHECKOUT / "CHANGELOG.md").read_text()
    released = re.findall(r"^## \[(.+?)\] - \d{4}-\d\d-\d\d$", changelog, re.M)
    # Until then, a file for each change.
    assert version in released or len(list((CHECKOUT / "changes").iterdir())) > 1
    towncrier = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["towncrier"]
    assert towncrier["start_string"] in changelog


def test_each_change_is_of_a_known_kind():
    names = [path.name for path in (CHECKOUT / "changes").iterdir()]
    kinds = re.compile(r"README\.md|[a-z0-9-]+\.(added|changed|removed|fixed)\.md")
    assert "README.md" in names and [name for name in names if not kinds.fullmatch(name)] == []
